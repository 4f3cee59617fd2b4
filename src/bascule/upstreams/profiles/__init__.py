"""The profiles, a line each."""

from bascule.upstreams.profile import Profile
from bascule.upstreams.profiles import custom, llama_cpp, lmstudio, ollama, openai, sglang, vllm

PROFILES: dict[str, Profile] = {
    module.PROFILE.name: module.PROFILE
    for module in (openai, vllm, sglang, ollama, llama_cpp, lmstudio, custom)
}
