"""Hypothesis strategies: foreign JSON, labels of /metrics, KV cache groups."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from dashboard.capacity.formula import Load
from dashboard.fleet import KVCacheGroup

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
)


def json_named(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON whose fields have these names."""
    return st.recursive(
        st.one_of(numbers, texts),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
        max_leaves=12,
    )


json_values = json_named(texts)
foreign_values = json_values | st.sampled_from(
    ["\ud800", "\0", "²", "١", "a" * 10_000, 10**400, 1e308, -1, [[]], {"": {}}]
)


@st.composite
def damaged(draw: st.DrawFn, whole: Any) -> Any:
    """JSON with another value at one place, or without it."""
    place = draw(st.sampled_from([*_places(whole, ())]))
    return _replaced(whole, place, draw(st.just(REMOVED) | foreign_values))


REMOVED = object()


def _places(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*place, key))


def _replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return None if new is REMOVED else new
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept = {key: _replaced(each, place[1:], new) if key == place[0] else each for key, each in pairs}
    if len(place) == 1 and new is REMOVED:
        del kept[place[0]]
    return kept if isinstance(value, dict) else list(kept.values())


label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True)
label_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def rendered(labels: dict[str, str]) -> str:
    """Labels as a server writes them: backslash, quote and newline escaped."""
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())


sizes = st.sampled_from([1, 8, 16, 64, 128, 1000])
FULL = ("FullAttentionSpec", "MLAAttentionSpec", "SinkFullAttentionSpec", "full_attention")
full_groups = st.builds(
    KVCacheGroup,
    dp_rank=st.just(0),
    group_id=st.integers(0, 99),
    spec_type=st.sampled_from(FULL),
    block_size=sizes,
    page_size_bytes=st.integers(1, 2**20),
    layers=st.integers(1, 100),
)


@st.composite
def groups(draw: st.DrawFn) -> KVCacheGroup:
    """A KV cache group of any kind that has a formula."""
    base = draw(full_groups)
    more: dict[str, Any] = draw(
        st.one_of(
            st.just({}),
            st.fixed_dictionaries(
                {
                    "spec_type": st.sampled_from(["SlidingWindowSpec", "sliding_window"]),
                    "sliding_window": st.integers(1, 5000),
                    "extra_retained_tokens": st.integers(0, 16),
                }
            ),
            st.fixed_dictionaries(
                {"spec_type": st.just("ChunkedLocalAttentionSpec"), "attention_chunk_size": st.integers(1, 9000)}
            ),
            st.fixed_dictionaries(
                {
                    "spec_type": st.just("MambaSpec"),
                    "mamba_cache_mode": st.sampled_from(["none", "align"]),
                    "num_speculative_blocks": st.one_of(st.none(), st.integers(0, 8)),
                    "num_prefill_checkpoint_blocks": st.one_of(st.none(), st.integers(0, 1)),
                }
            ),
        )
    )
    return base._replace(**more)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """The inputs of the formula other than the groups."""
    least = draw(st.integers(0, 8192))
    speculative = draw(st.integers(0, 8))
    return Load(
        max_model_len=draw(st.integers(1, 200_000)),
        in_flight=(least, least + draw(st.integers(0, 8192))),
        speculative_tokens=(draw(st.integers(0, speculative)), speculative),
        decode_context_parallel_size=draw(st.sampled_from([(1, 1), (2, 2), (8, 8), (1, 4), (1, None)])),
        max_encoder_tokens=draw(st.one_of(st.none(), st.integers(1, 9000))),
    )
