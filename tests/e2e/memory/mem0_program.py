"""Uses the real mem0 on a local store, in an environment of its own: `mem0_program.py qdrant|faiss|chroma FOLDER`.

Reads one JSON line of commands at a time and answers with what mem0 itself says it remembers. The embeddings come
from a server on the loopback that speaks OpenAI's format.
"""

import hashlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KIND, FOLDER = sys.argv[1:3]
SIZE = 16
os.environ |= {"MEM0_TELEMETRY": "False", "ANONYMIZED_TELEMETRY": "False", "MEM0_DIR": f"{FOLDER}/home"}


class Embeddings(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        texts = [asked] if isinstance(asked, str) else asked
        data = [
            {"object": "embedding", "index": at, "embedding": [byte / 255 for byte in digest[:SIZE]]}
            for at, text in enumerate(texts)
            for digest in (hashlib.sha256(str(text).encode()).digest(),)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "data": data, "model": "m", "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def opened():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeddings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    from mem0 import Memory

    store = {"path": f"{FOLDER}/store", "collection_name": "mem0"}
    if KIND != "chroma":
        store["embedding_model_dims"] = SIZE
    if KIND == "qdrant":
        store["on_disk"] = True
    model = {"model": "m", "api_key": "none", "openai_base_url": url}
    return Memory.from_config(
        {
            "history_db_path": f"{FOLDER}/history.db",
            "vector_store": {"provider": KIND, "config": store},
            "embedder": {"provider": "openai", "config": {**model, "embedding_dims": SIZE}},
            "llm": {"provider": "openai", "config": model},
        }
    )


memory = opened()
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    match json.loads(line):
        case ["add", text, about]:
            answer = memory.add(text, **about, infer=False)
        case ["update", identity, text]:
            answer = memory.update(identity, text)
        case ["delete", identity]:
            answer = memory.delete(identity)
        case ["all", user]:
            answer = memory.get_all(filters={"user_id": user})
    print(json.dumps(answer, default=str), flush=True)
os._exit(0)  # its clients would otherwise complain on their way out
