# SPDX-License-Identifier: Apache-2.0
"""vmcu for Python: `vmcu.load("model.onnx").plan(ram="64K").report()`."""

from vmcu_tools import __version__ as __version__
from vmcu_tools.api import Model as Model
from vmcu_tools.api import ModelPlan as ModelPlan
from vmcu_tools.api import PlanOptions as PlanOptions
from vmcu_tools.api import Report as Report
from vmcu_tools.api import load as load
from vmcu_tools.errors import PlanError as PlanError
from vmcu_tools.errors import UserError as UserError
from vmcu_tools.peaks import peak as peak
