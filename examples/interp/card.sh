#!/bin/sh
# The skill card's patterns on the command line: card.sh [REPOSITORY]
set -e

# Basic execution
caisson interp --timeout 300 -c '
import math
SUBMIT(answer=math.factorial(10), status="ok")
'

# Volume persistence: written by one sandbox, read by another
caisson interp --timeout 300 --volume my-project -c '
import json, pathlib
out = pathlib.Path("/home/daytona/memory/knowledge/report.json")
out.parent.mkdir(parents=True, exist_ok=True)
out.write_text(json.dumps({"key": "value"}))
SUBMIT(saved=str(out))
'
caisson interp --timeout 300 --volume my-project -c '
import json, pathlib
data = json.loads(pathlib.Path("/home/daytona/memory/knowledge/report.json").read_text())
SUBMIT(data=data)
'

# Several steps with buffers
caisson interp --timeout 600 -c '
add_buffer("findings", "First observation")
add_buffer("findings", "Second observation")
SUBMIT(step="collected")
' -c '
items = get_buffer("findings")
SUBMIT(count=len(items), items=items)
'

# Smoke test
if [ $# -gt 0 ]; then
    caisson smoke --repo "$1" > /dev/null
    echo "smoke: completed"
fi
