"""Rules on correctness, admission and what the API answers: CO-01 to CO-15."""

from dashboard.rules.behaviour.co_01_context_length import context_length_differs
from dashboard.rules.behaviour.co_02_served_names import served_names_differ
from dashboard.rules.behaviour.co_03_weights import weights_differ
from dashboard.rules.behaviour.co_04_precision import precision_differs
from dashboard.rules.behaviour.co_05_sampling_defaults import sampling_defaults_differ
from dashboard.rules.behaviour.co_06_chat_template import chat_template_differs
from dashboard.rules.behaviour.co_07_parsers import parsers_differ
from dashboard.rules.behaviour.co_08_structured_outputs import structured_outputs_backend_differs
from dashboard.rules.behaviour.co_09_adapters import adapters_differ
from dashboard.rules.behaviour.co_10_lora_limits import lora_limits_differ
from dashboard.rules.behaviour.co_11_queue_limits import queue_limits_differ
from dashboard.rules.behaviour.co_12_logprobs import logprobs_differ
from dashboard.rules.behaviour.co_13_numerics import numerics_differ
from dashboard.rules.behaviour.co_14_open_routes import development_routes_open
from dashboard.rules.behaviour.co_15_model_setup import model_setup_differs
from dashboard.rules.registry import Rule

BEHAVIOUR: tuple[Rule, ...] = (
    context_length_differs,
    served_names_differ,
    weights_differ,
    precision_differs,
    sampling_defaults_differ,
    chat_template_differs,
    parsers_differ,
    structured_outputs_backend_differs,
    adapters_differ,
    lora_limits_differ,
    queue_limits_differ,
    logprobs_differ,
    numerics_differ,
    development_routes_open,
    model_setup_differs,
)
