"""The profiles, a line each."""

from bascule.upstreams.profile import Profile
from bascule.upstreams.profiles import (
    anthropic,
    azure,
    claude_code,
    codex,
    copilot,
    custom,
    llama_cpp,
    lmstudio,
    ollama,
    openai,
    sglang,
    vllm,
)

PROFILES: dict[str, Profile] = {
    module.PROFILE.name: module.PROFILE
    for module in (
        openai,
        azure,
        codex,
        copilot,
        vllm,
        sglang,
        ollama,
        llama_cpp,
        lmstudio,
        anthropic,
        claude_code,
        custom,
    )
}
