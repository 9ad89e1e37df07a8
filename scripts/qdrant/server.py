"""Serves the part of Qdrant's REST API that Skein uses, with the local engine of the official Python client.

    server.py                prints its address on loopback, and serves until its standard input ends
    server.py --key SECRET   refuses requests without this `api-key`

Strict: a path, a parameter or a field that Qdrant's own models do not know is refused, and so are answers that those models
cannot hold. Everything is in memory.
"""

import argparse
import json
import re
import sys
import threading
import time
import traceback
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

MAX_BODY_BYTES = 32 * 1024 * 1024

# It says at every turn that its payload indexes do nothing.
warnings.simplefilter("ignore")
engine = QdrantClient(location=":memory:")
# The local engine is made for one thread.
turn = threading.Lock()


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def known(name):
    if not engine.collection_exists(name):
        raise Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
    return name


def parsed(model, body):
    try:
        return TypeAdapter(model).validate_json(body, strict=False)
    except ValidationError as error:
        raise Refusal(400, f"Format error in JSON body: {error}") from None


def selector(request):
    if request.points is not None:
        return list(request.points)
    if request.filter is not None:
        return models.FilterSelector(filter=request.filter)
    raise Refusal(400, "either points or filter must be given")


def read_collection(name, _):
    return engine.get_collection(known(name))


def create_collection(name, body):
    request = parsed(models.CreateCollection, body)
    if engine.collection_exists(name):
        raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
    return engine.create_collection(
        name, vectors_config=request.vectors or {}, sparse_vectors_config=request.sparse_vectors
    )


def delete_collection(name, _):
    return engine.delete_collection(name)


def create_index(name, body):
    request = parsed(models.CreateFieldIndex, body)
    return engine.create_payload_index(known(name), request.field_name, request.field_schema)


def create_vector(name, body, vector):
    request = parsed(models.VectorNameConfig, body)
    return engine.create_vector_name(known(name), vector, request)


def upsert(name, body):
    request = parsed(models.PointsList, body)
    return engine.upsert(known(name), request.points)


def update_vectors(name, body):
    request = parsed(models.UpdateVectors, body)
    return engine.update_vectors(known(name), request.points)


def set_payload(name, body):
    request = parsed(models.SetPayload, body)
    return engine.set_payload(known(name), request.payload, selector(request), key=request.key)


def delete_payload(name, body):
    request = parsed(models.DeletePayload, body)
    return engine.delete_payload(known(name), request.keys, selector(request))


def delete_points(name, body):
    return engine.delete(known(name), parsed(models.PointsSelector, body))


def batch(name, body):
    request = parsed(models.UpdateOperations, body)
    return engine.batch_update_points(known(name), request.operations)


def retrieve(name, body):
    request = parsed(models.PointRequest, body)
    return engine.retrieve(
        known(name),
        request.ids,
        with_payload=True if request.with_payload is None else request.with_payload,
        with_vectors=request.with_vector or False,
    )


def scroll(name, body):
    request = parsed(models.ScrollRequest, body)
    points, following = engine.scroll(
        known(name),
        scroll_filter=request.filter,
        limit=request.limit or 10,
        offset=request.offset,
        with_payload=True if request.with_payload is None else request.with_payload,
        with_vectors=request.with_vector or False,
    )
    return models.ScrollResult(points=points, next_page_offset=following)


def count(name, body):
    request = parsed(models.CountRequest, body)
    exact = True if request.exact is None else request.exact
    return engine.count(known(name), count_filter=request.filter, exact=exact)


def query_batch(name, body):
    request = parsed(models.QueryRequestBatch, body)
    return engine.query_batch_points(known(name), request.searches)


COLLECTION = r"/collections/([^/]+)"
# Method, path, whether it changes something and so takes `wait`, and what does it.
ROUTES = [
    ("GET", COLLECTION, False, read_collection),
    ("PUT", COLLECTION, False, create_collection),
    ("DELETE", COLLECTION, False, delete_collection),
    ("PUT", COLLECTION + "/index", True, create_index),
    ("PUT", COLLECTION + "/vectors/([^/]+)", True, create_vector),
    ("PUT", COLLECTION + "/points", True, upsert),
    ("PUT", COLLECTION + "/points/vectors", True, update_vectors),
    ("POST", COLLECTION + "/points/payload", True, set_payload),
    ("POST", COLLECTION + "/points/payload/delete", True, delete_payload),
    ("POST", COLLECTION + "/points/delete", True, delete_points),
    ("POST", COLLECTION + "/points/batch", True, batch),
    ("POST", COLLECTION + "/points", False, retrieve),
    ("POST", COLLECTION + "/points/scroll", False, scroll),
    ("POST", COLLECTION + "/points/count", False, count),
    ("POST", COLLECTION + "/points/query/batch", False, query_batch),
]


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def answer(method, target, key, body):
    if arguments.key is not None and key != arguments.key:
        raise Refusal(401, "Must provide an API key or an Authorization bearer token")
    path, _, parameters = target.partition("?")
    for wanted, pattern, changes, work in ROUTES:
        found = re.fullmatch(pattern, path)
        if found and method == wanted:
            if parameters != ("wait=true" if changes else ""):
                raise Refusal(400, f"unexpected parameters: {parameters!r}")
            names = found.groups()
            with turn:
                return plain(work(names[0], body, *names[1:]))
    raise Refusal(404, f"there is no {method} {path}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self):
        started = time.monotonic()
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            return self.reply(413, {"status": {"error": "the body is larger than 32 MiB"}})
        body = self.rfile.read(length)
        if body and self.headers.get("content-type") != "application/json":
            return self.reply(415, {"status": {"error": "Content type error"}})
        try:
            result = answer(self.command, self.path, self.headers.get("api-key"), body)
            spent = time.monotonic() - started
            self.reply(200, {"result": result, "status": "ok", "time": spent})
        except Refusal as refusal:
            self.reply(refusal.status, {"status": {"error": str(refusal)}, "time": 0.0})
        except (UnexpectedResponse, ResponseHandlingException, ValueError, KeyError) as error:
            self.reply(400, {"status": {"error": f"Wrong input: {error}"}, "time": 0.0})
        except Exception as error:  # a mistake in here must show in the test
            traceback.print_exc()
            self.reply(500, {"status": {"error": f"Service internal error: {error}"}, "time": 0.0})

    do_GET = do_PUT = do_POST = do_DELETE = do

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


arguments = argparse.ArgumentParser()
arguments.add_argument("--key")
arguments = arguments.parse_args()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdin.read()
