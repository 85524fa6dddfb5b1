# The image of the docker sandbox: the programs an agent's commands expect, and the runtime that carries them out.
#
#     docker build --tag toolyard-sandbox .
#
# It holds no secrets and listens on nothing. Toolyard starts it with a read-only root, without capabilities and
# without a network, as the user who owns the workspace; so nothing here may need root or write outside /tmp.

# Any Debian 12 will do, also one that was imported from a local archive.
ARG BASE=debian:bookworm-slim

# pip is needed only to fetch ast-grep, so it stays in a stage of its own.
FROM ${BASE} AS fetched
ARG AST_GREP_VERSION=0.51.0
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-pip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3 -m pip install --no-cache-dir --no-deps --only-binary :all: --root-user-action ignore \
      --target /fetched "ast-grep-cli==${AST_GREP_VERSION}"

FROM ${BASE}
# bash and coreutils belong to every Debian; they are named because the sandbox needs them. Debian's own releases pin
# the versions: fixes come in, features do not change. python3-venv is what lets an agent install packages for itself.
# No program keeps its setuid bit: nothing in here has a reason to change its user.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      bash ca-certificates coreutils git python3 python3-venv ripgrep \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# Only the long name: `sg` is another program on Debian.
COPY --from=fetched /fetched/bin/ast-grep /usr/local/bin/ast-grep

# The workspace is mounted and belongs to whoever owns it outside; git would refuse it as someone else's.
RUN git config --system --add safe.directory '*'

# Compiled ahead, because the root is read-only when it runs.
COPY src/toolyard_runtime /opt/toolyard/toolyard_runtime
RUN python3 -m compileall -q /opt/toolyard

# For those who run the image by hand; Toolyard names the user itself.
USER 65534:65534
ENV HOME=/tmp LANG=C.UTF-8
WORKDIR /tmp

# The first process of the container; it ends when its standard input does, and everything in the container with it.
# -I and -S: neither the environment nor a folder the agent writes to decides what is imported.
ENTRYPOINT ["python3", "-I", "-S", "-c", "import sys; sys.path.insert(0, '/opt/toolyard'); from toolyard_runtime.warden import main; main()"]
