# SPDX-License-Identifier: Apache-2.0
"""What the help of each command shows. tests/python/test_help_examples.py parses and runs them."""

from __future__ import annotations

import argparse

# By command: what follows it on the command line, and what that does.
EXAMPLES = {
    "build": (
        ("model.tflite", "what it costs"),
        ("model.tflite -o out --ram 64K", "C tables, the fastest plan in so much RAM"),
        ("model.onnx --html report.html", "a page: what is in RAM, and when"),
        ("net.onnx --calibration data.npz -o out", "a float model, quantised first"),
        ("kws.tflite --hop 1 --json - --quiet", "one new row a call; figures for programs"),
        ("kws.tflite --format container -o .", "kws.vmcu, which firmware loads"),
    ),
    "fit": (
        ("model.tflite --ram 64K --flash 512K", "does it fit, and what would make it fit"),
        ("model.tflite --board nucleo_f411re", "beside an application of usual size"),
        ("model.onnx --ram 64K --grow", "how much larger it may get"),
    ),
    "check": (
        ("model.tflite --max-ram 64K --max-flash 512K", "exit 1 where a limit is not held"),
        ("model.onnx --baseline before.json --tolerance 2", "or where it grew by more than 2 %"),
    ),
    "diff": (
        ("before.tflite after.tflite", "which layers grew"),
        ("before.json after.vmcu", "a report against a container"),
    ),
    "compare": (("model.onnx", "beside other tools' planners"),),
    "compare-runs": (
        ("before.json after.json --max-ram 1", "of one model; exit 1 where RAM grew by more"),
        ("before after --junit growth.xml", "folders of many, each by its name"),
    ),
    "verify": (
        ("model.onnx", "tensor by tensor, on this computer"),
        ("model.tflite --on qemu:m4 -n 5", "on an emulated Cortex-M4, five inputs"),
        ("kws.vmcu", "a container, against its own tables"),
    ),
    "run": (
        ("model.onnx --input x.npy --output y.npy", "inputs and outputs as numpy has them"),
        ("okay_nabu.tflite --input rows.npy", "a stream: as many rows as one likes"),
    ),
    "bench": (
        ("model.tflite", "instructions and cycles, layer by layer"),
        ("model.tflite --board nucleo_f411re", "milliseconds on that board, by a model of it"),
    ),
    "size": (("build/zephyr/zephyr.elf", "what the model and the runtime take of an image"),),
    "boards": (
        ("", "those with a model of their flash"),
        ("'nucleo_f4*'", "some of them"),
    ),
    "container": (
        ("show kws.vmcu", "what is in it"),
        ("verify kws.vmcu", "exit 0 if it is whole"),
        ("sign kws.vmcu --key key.pem", "so that devices take no other"),
        ("kernels kws.vmcu wake.vmcu", "C that links the kernels of both"),
    ),
    "place": (
        ("PROBLEM.csv", "buffers with lifetimes, at offsets"),
        ("PROBLEM.csv --memory fast=64K,slow=1M:10", "in two memories"),
        ("--graph FILE.json --json PLAN.json", "order and offsets of any graph"),
    ),
    "plan-tflite": (("IN.tflite OUT.tflite", "for TensorFlow Lite Micro's own interpreter"),),
    "inspect": (("model.tflite", "its operators, whether they are supported or not"),),
    "new": (
        ("app --model model.tflite", "then: west build -b qemu_cortex_m3 app -t run"),
        ("listener --model okay_nabu.tflite", "a stream"),
    ),
    "ops": (("", "what models may have"),),
    "quantize": (("net.onnx --calibration data.npz -o int8.onnx", "to int8, and how well"),),
    "audio": (
        ("-o tables", "front_end.c and front_end.h"),
        ("--wav recording.wav -o features", "features of a recording, to train with"),
    ),
    "wear": (
        ("", "stacks that move, as in the paper"),
        ("model.onnx --rotate", "every store of an inference, on qemu:m4"),
    ),
    "completion": (("bash", "for ~/.bashrc"),),
}
_TITLE = "examples:\n"


class Help(argparse.HelpFormatter):
    """Leaves examples in their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_TITLE) else super()._fill_text(text, width, indent)


def show_examples(command: argparse.ArgumentParser, name: str) -> None:
    """Puts the examples of a command behind its options."""
    lines = (
        f"  %(prog)s {words}".rstrip() + f"\n      {what}".replace("%", "%%")
        for words, what in EXAMPLES[name]
    )
    command.formatter_class = Help
    command.epilog = _TITLE + "\n".join(lines)
