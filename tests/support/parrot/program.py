"""The made-up agent itself: it repeats its prompt, and keeps each conversation in one file."""

import json
import os
import sys
import uuid


def main() -> None:
    words = sys.argv[1:]
    native_id = words[1] if words[0] == "--resume" else str(uuid.uuid4())
    prompt = words[-1]
    path = os.path.join(os.environ["PARROT_HOME"], f"{native_id}.jsonl")
    with open(path, "a") as file:
        if file.tell() == 0:
            print(json.dumps({"type": "session", "id": native_id, "cwd": os.getcwd()}), file=file)
        for record in ({"type": "prompt", "text": prompt}, {"type": "reply", "text": prompt.upper()}):
            print(json.dumps(record), file=file)
    for record in ({"type": "session", "id": native_id}, {"type": "reply", "text": prompt.upper()}):
        print(json.dumps(record), flush=True)
    print(json.dumps({"type": "end"}), flush=True)


main()
