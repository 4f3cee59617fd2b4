"""Makes questions.jsonl.gz of the wheel of bfcl-eval: `python make.py bfcl_eval-VERSION-py3-none-any.whl`.

A line for each question: its category, its functions as they stand there, and the calls that answer it
(the first of the accepted values of each argument). Questions of several turns name classes of functions;
they come once for each set of classes, with all calls of their answers that have named arguments only.
"""

import ast
import gzip
import json
import re
import sys
import zipfile
from pathlib import Path

DATA = "bfcl_eval/data/"
# As in the package: the file with the functions of each class.
FILES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
    "WebSearchAPI": "web_search",
    "MemoryAPI_kv": "memory_kv",
    "MemoryAPI_vector": "memory_vector",
    "MemoryAPI_rec_sum": "memory_rec_sum",
}


def lines(wheel, path):
    return [json.loads(line) for line in wheel.read(path).decode().splitlines() if line.strip()]


def first(value):
    """One argument of the accepted ones; '' among them says that it may be left out."""
    if isinstance(value, dict):
        ones = {k: o[0] if isinstance(o, list) and o else o for k, o in value.items()}
        return {key: first(one) for key, one in ones.items() if one != ""}
    if isinstance(value, list):
        return [first(one) for one in value]
    return value


def calls(answers):
    made = []
    for answer in answers:
        if isinstance(answer, dict):
            for name, arguments in answer.items():
                given = {k: first(v[0]) for k, v in arguments.items() if v and v[0] != ""}
                made.append({"name": name, "arguments": given})
    return made


def written(answers):
    """Calls in Python, of questions with several turns."""
    made = []
    for text in (text for turn in answers for text in turn):
        try:
            call = ast.parse(text, mode="eval").body
            if isinstance(call, ast.Call) and not call.args:
                arguments = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
                made.append({"name": call.func.id, "arguments": arguments})
        except (SyntaxError, ValueError, AttributeError):
            continue
    return made


def questions(wheel):
    names = wheel.namelist()
    by_classes = {}
    for path in sorted(names):
        found = re.fullmatch(re.escape(DATA) + r"BFCL_v4_(\w+)\.json", path)
        if not found or found[1] == "format_sensitivity":  # a list of questions of the others
            continue
        category = found[1]
        answers_path = f"{DATA}possible_answer/BFCL_v4_{category}.json"
        answers = {}
        if answers_path in names:
            answers = {line["id"]: line["ground_truth"] for line in lines(wheel, answers_path)}
        for line in lines(wheel, path):
            truth = answers.get(line["id"], [])
            if "function" in line:
                yield {
                    "category": category,
                    "id": line["id"],
                    "functions": line["function"],
                    "calls": calls(truth),
                }
                continue
            classes = line["involved_classes"]
            if classes == ["MemoryAPI"]:
                sets = [[f"MemoryAPI_{kind}"] for kind in ("kv", "vector", "rec_sum")]
            else:
                sets = [classes]
            for one in sets:
                kept = by_classes.setdefault((category, *one), [])
                kept += written(truth) if category.startswith("multi_turn") else []
    for (category, *classes), made in by_classes.items():
        functions = []
        for name in classes:
            functions += lines(wheel, f"{DATA}multi_turn_func_doc/{FILES[name]}.json")
        known = {function["name"] for function in functions}
        distinct = {json.dumps(call): call for call in made if call["name"] in known}
        yield {
            "category": category,
            "id": "+".join(classes),
            "functions": functions,
            "calls": list(distinct.values())[:40],
        }


def main():
    out = Path(__file__).parent / "questions.jsonl.gz"
    with zipfile.ZipFile(sys.argv[1]) as wheel, out.open("wb") as file:
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
            for question in questions(wheel):
                packed.write(json.dumps(question, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
