"""Encoders (random_texts.py). Further fields of a row:

    texts   True: golden_test_texts compares vectors and class scores
    frames  how texts and pairs of texts are put together
    limit   a function of the options: most tokens of a text
"""
ACTIVATION = ["gelu", "gelu", "relu", "silu", "gelu_new"]
COMMON = dict(vocab_size=113, hidden_size=lambda random, options: options["num_attention_heads"] * random.choice([8, 12, 16, 20]),
              num_hidden_layers=[1, 2, 3], num_attention_heads=[2, 3, 4], intermediate_size=[40, 64, 96],
              hidden_act=ACTIVATION, max_position_embeddings=[40, 66, 130], layer_norm_eps=[1e-12, 1e-5])


def after_padding(options):
    """The first two rows of the table of positions are not used."""
    return options["max_position_embeddings"] - 2


def positions(options):
    return options["max_position_embeddings"]


FAMILIES = {
    "bert": dict(options={**COMMON, "type_vocab_size": 2}, frames=["bert", "types"], limit=positions, texts=True),
    "roberta": dict(options={**COMMON, "type_vocab_size": 1}, frames=["roberta"], limit=after_padding, texts=True,
                    config=lambda options: {**options, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}),
    "xlm-roberta": dict(options={**COMMON, "type_vocab_size": 1}, frames=["roberta", "plain"], limit=after_padding, texts=True,
                        config=lambda options: {**options, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}),
    "distilbert": dict(
        options={**COMMON, "hidden_act": ["gelu", "relu"]}, frames=["bert", "plain"], limit=positions, texts=True,
        config=lambda options: dict(
            vocab_size=options["vocab_size"], dim=options["hidden_size"], n_layers=options["num_hidden_layers"],
            n_heads=options["num_attention_heads"], hidden_dim=options["intermediate_size"], activation=options["hidden_act"],
            max_position_embeddings=options["max_position_embeddings"], pad_token_id=0)),
}
