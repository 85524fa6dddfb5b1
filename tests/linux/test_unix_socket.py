"""Sockets at paths of any length, for their owner alone."""

import os
import socket
import stat

import pytest

from toolyard.linux.unix_socket import bind_privately, short_name


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_only_the_owner_can_connect_whatever_the_umask_is(tmp_path, umask):
    before = os.umask(umask)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bind_privately(bound, f"{tmp_path}/socket")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(f"{tmp_path}/socket").st_mode) == 0o600


def test_a_path_may_be_longer_than_the_kernel_takes(tmp_path):
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        bind_privately(listener, f"{folder}/socket")
        listener.listen()
        with short_name(f"{folder}/socket") as name:
            caller.connect(name)
