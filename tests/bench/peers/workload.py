"""The prompts of all peers: random token ids, the same lengths for every peer."""
import random

VOCABULARY = 49152
MIX_OUTPUT = 64


def tokens(count, seed=0):
    source = random.Random(seed)
    return [source.randrange(17, VOCABULARY) for _ in range(count)]


def mix_prompts():
    """64 prompts of 32 to 512 tokens, 17,705 together, as in `millrace bench --engine`."""
    return [tokens(32 + i * 395 % 481, i) for i in range(64)]
