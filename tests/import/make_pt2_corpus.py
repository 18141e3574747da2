"""Writes fuzz/corpus/pt2_fuzz: real archives of a few KB, without pickles and this machine's
paths, and two model.json alone.

python tests/import/make_pt2_corpus.py    (from .venv; only when the format changes)
"""

import io
import json
import pathlib
import zipfile

import torch
from pt2_programs import R, S, fn, program

CORPUS = pathlib.Path(__file__).parents[2] / "fuzz/corpus/pt2_fuzz"
LEFT_OUT = ("sample_inputs", ".data/", "byteorder")  # torch's writer adds the last two by itself


class State(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("c", torch.zeros(2))

    def forward(self, x):
        self.c.add_(1)
        return x * self.w + self.c + torch.tensor(2.0)


def kinds(x, i, n):
    return x[None, i], x.split(1, -1), x.to(torch.float16), x * float("inf")


PROGRAMS = {
    "state": torch.export.export(State(), (R(4, 2),), dynamic_shapes=({0: S},)),
    "unbacked": fn(lambda x: (x.nonzero(), x.shape[0] // 2), (R(8),), ({0: S},))(),
    "kinds": fn(kinds, (R(4, 2), torch.tensor([0]), None), ({0: S}, None, None))(),
} | {name: program(name) for name in ("cond", "nested", "containers")}


def trim(graph):
    """Short metadata: enough to reach its parsers."""
    for node in graph["nodes"]:
        kept = {"stack_trace": 'File "m.py", line 7, in forward\n    y = x'}
        if stack := node["metadata"].get("nn_module_stack"):
            kept["nn_module_stack"] = stack
        node["metadata"] = kept if node is graph["nodes"][0] else {}
        for entry in node["inputs"]:
            if "as_graph" in entry["arg"]:
                trim(entry["arg"]["as_graph"]["graph"])


def members(ep):
    """(path below the root, bytes) of the saved program."""
    buffer = io.BytesIO()
    torch.export.save(ep, buffer)
    with zipfile.ZipFile(buffer) as archive:
        for name in archive.namelist():
            path, data = name.split("/", 1)[1], archive.read(name)
            if path == "models/model.json":
                document = json.loads(data)
                trim(document["graph_module"]["graph"])
                data = json.dumps(document, separators=(",", ":")).encode()
            if not path.startswith(LEFT_OUT) and "sample_inputs" not in path:
                yield path, data


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, ep in PROGRAMS.items():
        with zipfile.ZipFile(CORPUS / name, "w", zipfile.ZIP_STORED) as archive:
            for path, data in members(ep):
                archive.writestr(zipfile.ZipInfo(f"m/{path}"), data)  # the same bytes every time
            archive.writestr(zipfile.ZipInfo("m/byteorder"), b"little")
    for name in ("cond", "kinds"):
        document = dict(members(PROGRAMS[name]))["models/model.json"]
        (CORPUS / f"{name}.json").write_bytes(document)
    # One as torch's own writer lays it out: data descriptors and padding to 64 bytes.
    writer = torch._C.PyTorchFileWriter(str(CORPUS / "descriptors"))
    for path, data in members(PROGRAMS["state"]):
        writer.write_record(path, data, len(data))
    writer.write_end_of_file()


if __name__ == "__main__":
    main()
