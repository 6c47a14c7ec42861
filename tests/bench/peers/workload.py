"""The prompts every peer gets: random token ids, the same lengths for everybody."""
import random

VOCABULARY = 49152
MIX_OUTPUT = 64


def tokens(count, seed=0):
    source = random.Random(seed)
    return [source.randrange(17, VOCABULARY) for _ in range(count)]


def mix_prompts():
    """64 prompts of 32 to 512 tokens, 17,705 in all: the lengths of `millrace bench --engine`."""
    return [tokens(32 + i * 395 % 481, i) for i in range(64)]
