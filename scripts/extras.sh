#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# extras.sh FOLDER: installs the core and each extra of pyproject.toml without the others, and runs
# a command that needs it. `dev` is what ./test runs in, `torch` has a step of its own there.

set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

OUT=$1
MODEL=$ROOT/samples/digits/digits.onnx

# install NAME: an environment with the core and that extra.
install() {
	python3 -m venv --clear "$OUT/$1"
	quietly "extra-$1" "$OUT/$1/bin/python" -m pip install -q --disable-pip-version-check "$ROOT[$1]"
}

# use NAME: what an extra is for.
use() {
	local vmcu=$OUT/$1/bin/vmcu

	case $1 in
	verify) "$vmcu" verify "$MODEL" --on virtual -n 2 ;;
	quantize) "$vmcu" quantize "$OUT/float.onnx" --calibration "$OUT/samples.npz" -o "$OUT/int8.onnx" ;;
	solver) "$vmcu" place --graph "$OUT/graph.json" --solver highs --seconds 2 ;;
	png) "$vmcu" build "$MODEL" -o "$OUT/png-out" --picture "$OUT/plan.png" ;;
	sign)
		openssl genpkey -algorithm ed25519 -out "$OUT/key.pem"
		"$vmcu" build "$MODEL" --format container --name digits -o "$OUT/container"
		"$vmcu" container sign "$OUT/container/digits.vmcu" --key "$OUT/key.pem"
		;;
	nas) "$OUT/$1/bin/python" -c 'import distributed' ;;
	serial) "$OUT/$1/bin/python" -c 'import serial' ;;
	*)
		echo "no command here for the extra '$1'"
		return 1
		;;
	esac
}

mkdir -p "$OUT"
echo '{"tensors": [{"name": "x", "size": 100}, {"name": "y", "size": 50}],
"nodes": [{"name": "a", "outputs": ["x"]}, {"name": "b", "inputs": ["x"], "outputs": ["y"]}]}' >"$OUT/graph.json"
"$VENV/bin/python" - "$OUT" <<-'END'
	import sys
	from pathlib import Path

	import numpy as np
	from onnx import TensorProto, helper, numpy_helper, save

	folder, rng = Path(sys.argv[1]), np.random.default_rng(1)
	x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xy")
	weights = numpy_helper.from_array(rng.normal(size=(8, 8)).astype(np.float32), "w")
	node = helper.make_node("MatMul", ["x", "w"], ["y"])
	opset = [helper.make_opsetid("", 17)]
	graph = helper.make_graph([node], "g", [x], [y], [weights])
	save(helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "float.onnx")
	np.savez(folder / "samples.npz", x=rng.normal(size=(16, 8)).astype(np.float32))
END
names=$("$VENV/bin/python" - "$ROOT/pyproject.toml" <<-'END'
	import re
	import sys
	from pathlib import Path

	table = Path(sys.argv[1]).read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
	names = re.findall(r"^(\w+) = \[", table, re.M)
	print(*(name for name in names if name not in ("dev", "torch")))
END
)
for name in $names; do
	say "extra: $name"
	install "$name"
	use "$name" || { echo "extra $name: FAILED"; exit 1; }
done
