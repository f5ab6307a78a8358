"""Makes the Parquet files of the tests, with pyarrow: what Python's data sets are written by.

    pip install pyarrow && python make.py
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq

message = pa.struct([
    ("role", pa.string()),
    ("content", pa.string()),
    ("tool_calls", pa.list_(pa.struct([
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]))),
    ("weight", pa.float64()),
])
schema = pa.schema([
    ("id", pa.int64()),
    ("messages", pa.list_(message)),
    ("tools", pa.string()),
    ("scores", pa.list_(pa.list_(pa.float32()))),
    ("labels", pa.map_(pa.string(), pa.int32())),
    ("flag", pa.bool_()),
    ("small", pa.uint8()),
])

call = {"type": "function", "function": {"name": "f", "arguments": '{"z": 1, "a": "é"}'}}
rows = [
    {"id": 1, "messages": [{"role": "user", "content": 'U "1" \\ \n\u0007'}, {"role": "assistant", "content": "A 日本", "weight": 0.5}],
     "scores": [[1.5, None], [], [float("nan")]], "labels": [("y", 1), ("x", None)], "flag": True, "small": 200},
    {"id": None, "messages": [{"role": "user", "content": ""}, {"role": "assistant", "tool_calls": [call, call]},
                              {"role": "tool", "content": "3", "tool_calls": []}, {"role": "assistant", "content": "B"}],
     "tools": '[{"name": "f"}]', "scores": [], "labels": []},
    {"id": 3, "messages": [], "scores": None, "flag": False},
]
table = pa.Table.from_pylist(rows, schema=schema)
pq.write_table(table, "messages.parquet", compression="zstd", row_group_size=2)

many = pa.Table.from_pylist([{"text": f"text {i % 7}", "n": i} for i in range(1000)])
pq.write_table(many, "texts.parquet", compression="snappy", row_group_size=300, data_page_size=256, data_page_version="2.0")
for name in "gzip", "lz4", "brotli", "none":
    pq.write_table(many.slice(0, 3), f"{name}.parquet", compression=name, use_dictionary=False)


def plain(value):
    """A value as the reader gives it: without what is null in a struct, maps as objects, NaN as null."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return {k: plain(v) for k, v in value}
        return [plain(v) for v in value]
    return None if value != value else value


def text(row):
    row = plain(row)
    if row.get("labels") == []:
        row["labels"] = {}
    return json.dumps(row, ensure_ascii=False)


with open("messages.jsonl", "w") as out:
    for row in pq.read_table("messages.parquet").to_pylist():
        out.write(text(row) + "\n")
