# SPDX-License-Identifier: Apache-2.0
"""The tables of a front end as C, for lib/vmcu/audio."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..emit.initialisers import rows_of
from .settings import Settings
from .tables import SNR_BITS, Tables, tables_of

# Defined where CMSIS-DSP has the transform of pairs, which then takes none of these tables.
SWITCH = "VMCU_AUDIO_CMSIS_DSP"
OF_PAIRS = ("places", "twiddles")
# Those that it has constants for.
CMSIS_POINTS = tuple(1 << bits for bits in range(4, 13))


def state_bytes(settings: Settings) -> int:
    """RAM that a front end keeps: a window, and the noise of each channel."""
    return 4 * settings.channels + -(-2 * settings.window // 4) * 4


def work_bytes(settings: Settings) -> int:
    """RAM that it needs while it computes a row: the bins, and the channels."""
    return 4 * (settings.transform // 2 + 1) + 4 * settings.channels


def flash_bytes(settings: Settings) -> int:
    """The tables, without the struct that points to them."""
    t = tables_of(settings)
    pairs = t.twiddles.size + t.halves.size + t.weights.size + t.unweights.size
    return 2 * (len(t.coefficients) + len(t.places) + pairs + len(t.widths) + len(t.gain)) + (
        2 * len(t.log) if settings.log else 0
    )


def files(settings: Settings, name: str, command: str) -> dict[str, str]:
    """NAME.c and NAME.h."""
    tables = tables_of(settings)
    note = f"/* Written by `{command}`. */\n"
    upper = name.upper()
    header = (
        f"{note}\n#ifndef VMCU_AUDIO_{upper}_H_\n#define VMCU_AUDIO_{upper}_H_\n\n"
        "#include <vmcu/audio.h>\n\n"
        f"/** Samples a second, samples a row, and numbers in a row. */\n"
        f"#define {upper}_SAMPLE_RATE {settings.sample_rate}U\n"
        f"#define {upper}_HOP {settings.hop}U\n"
        f"#define {upper}_CHANNELS {settings.channels}U\n"
        "/** What vmcu_audio_init() asks for. */\n"
        f"#define {upper}_STATE_BYTES {state_bytes(settings)}U\n"
        f"#define {upper}_WORK_BYTES {work_bytes(settings)}U\n\n"
        f"extern const struct vmcu_audio {name};\n\n#endif\n"
    )
    arrays = {
        "coefficients": ("int16_t", tables.coefficients),
        "places": ("uint16_t", tables.places),
        "twiddles": ("struct vmcu_complex", tables.twiddles),
        "halves": ("struct vmcu_complex", tables.halves),
        "weights": (
            "struct vmcu_audio_weight",
            np.stack([tables.weights, tables.unweights], axis=-1),
        ),
        "widths": ("uint16_t", tables.widths),
        "gain": ("int16_t", tables.gain),
        "log": ("uint16_t", tables.log if settings.log else tables.log[:0]),
    }
    arrays = {kind: array for kind, array in arrays.items() if len(array[1])}
    of_pairs = "".join(_array(f"{name}_{kind}", *arrays[kind]) for kind in OF_PAIRS)
    first, *rest = (kind for kind in arrays if kind not in OF_PAIRS)
    points = settings.transform // 2
    values = {kind: f"{name}_{kind}" for kind in (first, *rest)} | _numbers(settings, tables)
    source = (
        f'{note}\n#include "{name}.h"\n\n'
        f"{_array(f'{name}_{first}', *arrays[first])}"
        f"#if defined({SWITCH})\n{_instance(points)}#else\n{of_pairs}#endif\n\n"
        f"{''.join(_array(f'{name}_{kind}', *arrays[kind]) for kind in rest)}"
        f"const struct vmcu_audio {name} = {{\n"
        f"#if defined({SWITCH})\n{_fields({'fft': f'&arm_cfft_sR_q15_len{points}'})}"
        f"#else\n{_fields({kind: f'{name}_{kind}' for kind in OF_PAIRS})}#endif\n"
        f"{_fields(values)}}};\n"
    )
    return {f"{name}.c": source, f"{name}.h": header}


def _fields(values: Mapping[str, int | str]) -> str:
    return "".join(f"\t.{field} = {value},\n" for field, value in values.items())


def _instance(points: int) -> str:
    """Includes CMSIS-DSP's transform of so many points, or states that there is none."""
    if points in CMSIS_POINTS:
        return "#include <arm_const_structs.h>\n"
    return f'#error "CMSIS-DSP has no transform of {points} points: leave out {SWITCH}"\n'


def _array(name: str, type_: str, values: np.ndarray) -> str:
    texts = [str(v) if values.ndim == 1 else f"{{{v[0]}, {v[1]}}}" for v in values.tolist()]
    lines = "".join(f"\t{line}\n" for line in rows_of(texts, 12 if values.ndim == 1 else 6))
    return f"static const {type_} {name}[] = {{\n{lines}}};\n\n"


def _numbers(settings: Settings, tables: Tables) -> dict[str, int | str]:
    shift = settings.pcan_gain_bits - tables.correction - SNR_BITS if settings.pcan else 0
    return {
        "state_bytes": state_bytes(settings),
        "work_bytes": work_bytes(settings),
        "window": settings.window,
        "hop": settings.hop,
        "points": settings.transform // 2,
        "channels": settings.channels,
        "first_bin": int(tables.starts[0]),
        "even_smoothing": tables.even_smoothing,
        "odd_smoothing": tables.odd_smoothing,
        "least_signal": tables.least_signal,
        "smoothing_bits": settings.smoothing_bits,
        "gain_shift": shift,
        "log_shift": settings.log_shift,
        "correction": tables.correction,
        "is_log": "true" if settings.log else "false",
    }
