# SPDX-License-Identifier: Apache-2.0
"""ESPHome's external component vmcu_wake_word: several wake words at once."""

import sys
from pathlib import Path

import esphome.codegen as cg
import esphome.config_validation as cv
from esphome import automation
from esphome.components import microphone
from esphome.const import CONF_ID, CONF_MICROPHONE
from esphome.core import CORE, EsphomeError, Lambda
from esphome.helpers import copy_file_if_changed

ROOT = Path(__file__).resolve().parents[4]
WAKE_WORDS = ROOT / "examples" / "wake_words"
INCLUDES = ("models", "examples/wake_words", "lib/vmcu/include")

DEPENDENCIES = ["microphone"]

VmcuWakeWord = cg.esphome_ns.namespace("vmcu_wake_word").class_("VmcuWakeWord", cg.Component)

MODEL = cv.Schema(
    {
        cv.Required("manifest"): cv.file_,
        cv.Optional("probability_cutoff"): cv.percentage,
        cv.Optional("sliding_window_size"): cv.int_range(min=1, max=255),
    }
)
CONFIG_SCHEMA = cv.Schema(
    {
        cv.GenerateID(): cv.declare_id(VmcuWakeWord),
        cv.Optional(CONF_MICROPHONE, default={}): microphone.microphone_source_schema(),
        cv.Required("models"): cv.All(
            cv.ensure_list(cv.maybe_simple_value(MODEL, key="manifest")),
            cv.Length(min=1, max=32),
        ),
        cv.Optional("on_wake_word_detected"): automation.validate_automation(single=True),
    }
).extend(cv.COMPONENT_SCHEMA)
MICROPHONE = microphone.final_validate_microphone_source_schema("vmcu_wake_word", sample_rate=16000)
FINAL_VALIDATE_SCHEMA = cv.Schema({cv.Required(CONF_MICROPHONE): MICROPHONE}, extra=cv.ALLOW_EXTRA)


def write_sources(models: list[dict]) -> None:
    """Compiles the models, and copies the C sources to the project."""
    sys.path.append(str(WAKE_WORDS))
    try:
        import wake_words
    except ImportError as error:
        install = f"{sys.executable} -m pip install {ROOT}"
        raise EsphomeError(f"{error}; install vmcu: {install}") from error
    options = ("probability_cutoff", "sliding_window_size")
    words = [
        wake_words.WakeWord(Path(model["manifest"]), *(model.get(name) for name in options))
        for model in models
    ]
    folder = CORE.relative_src_path("vmcu")
    try:
        wake_words.generate(words, folder / "models")
    except (wake_words.vmcu.UserError, KeyError, ValueError) as error:
        raise EsphomeError(str(error)) from error
    headers = [*(ROOT / "lib" / "vmcu").rglob("*.h"), *WAKE_WORDS.glob("*.h")]
    for path in [*wake_words.sources(), *headers]:
        copy_file_if_changed(path, folder / path.relative_to(ROOT))
    flags = [f"-I{folder / include}" for include in INCLUDES]
    for flag in [*flags, "-DVMCU_STREAMS", "-ffp-contract=off"]:
        cg.add_build_flag(flag)


async def to_code(config: dict) -> None:
    write_sources(config["models"])
    source = await microphone.microphone_source_to_code(config[CONF_MICROPHONE])
    var = cg.new_Pvariable(config[CONF_ID], source)
    await cg.register_component(var, config)
    if action := config.get("on_wake_word_detected"):
        arguments = [(cg.std_string, "wake_word")]
        await automation.build_automation(var.get_detected_trigger(), arguments, action)


TARGET = {cv.GenerateID(): cv.use_id(VmcuWakeWord), cv.Optional("word"): cv.uint8_t}


def register(method: str) -> None:
    """Registers an action that starts or stops all words with the microphone, or one word."""

    @automation.register_action(
        f"vmcu_wake_word.{method}", automation.LambdaAction, TARGET, synchronous=True
    )
    async def to_lambda(config, action_id, template_arg, args):
        text = f"id({config[CONF_ID]}).{method}();"
        if (word := config.get("word")) is not None:
            if word >= len(CORE.config["vmcu_wake_word"]["models"]):
                raise EsphomeError(f"vmcu_wake_word.{method}: there is no word {word}")
            text = f"wake_words_{method}({word});"
        body = await cg.process_lambda(Lambda(text), args, return_type=cg.void)
        return cg.new_Pvariable(action_id, template_arg, body)


register("start")
register("stop")
