"""Draws encoders at random for random_models.py, and writes the vectors and class scores of PyPI transformers 5 and
tokenizers, which golden_test_texts compares with the worker's.

Each model is saved for sequence classification, with random labels, pooling, dense modules and activation functions of
sentence-transformers. expected.json has the cases: the record of a request, and the numbers of each of its texts, null
for one that is too long.

    random_texts.py FOLDER TYPE SEED    writes one model
"""
import json
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoModelForSequenceClassification, CONFIG_MAPPING

WORDS = "the cat sat on a mat and it was warm today but rain came later so we all ran back home quickly".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ACTIVATIONS = {"Tanh": torch.tanh, "Identity": lambda x: x, "ReLU": torch.relu, "GELU": torch.nn.functional.gelu}


def write_tokenizer(folder, frame):
    """WordPiece with the letters, and some of the words whole. frame: how texts and pairs are put together."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!"
    vocab = SPECIAL + WORDS[::2] + list(letters) + ["##" + letter for letter in letters]
    vocab = {piece: index for index, piece in enumerate(dict.fromkeys(vocab))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    from tokenizers import decoders
    tokenizer.decoder = decoders.WordPiece()
    cls, sep = ("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])
    tokenizer.post_processor = {
        "bert": lambda: processors.BertProcessing(sep, cls),
        "types": lambda: processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[cls, sep]),
        "roberta": lambda: processors.RobertaProcessing(sep, cls, add_prefix_space=False),
        "plain": lambda: processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[cls, sep]),
        "last": lambda: processors.TemplateProcessing(
            single="$A [SEP]", pair="$A [SEP] $B [SEP]", special_tokens=[sep]),
    }[frame]()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}\n")
    return tokenizer


def text(chance, words):
    return " ".join(chance.choice(WORDS) for _ in range(words)) + chance.choice(".!?")


def edit_config(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def write_modules(folder, hidden, chance, generator):
    """Returns the pooling mode and the functions of the dense modules."""
    mode = chance.choice(["cls", "mean", "lasttoken"])
    (folder / "1_Pooling").mkdir()
    config = {"pooling_mode": mode} if chance.random() < 0.5 else {
        "word_embedding_dimension": hidden, "pooling_mode_cls_token": mode == "cls",
        "pooling_mode_mean_tokens": mode == "mean", "pooling_mode_lasttoken": mode == "lasttoken"}
    (folder / "1_Pooling/config.json").write_text(json.dumps(config))
    modules, layers, size = [("", "Transformer"), ("1_Pooling", "Pooling")], [], hidden
    for index in range(2, 2 + chance.choice([0, 0, 1, 2])):
        path, out, name = f"{index}_Dense", chance.choice([24, 40]), chance.choice(list(ACTIVATIONS))
        weight = torch.randn(out, size, generator=generator) * size ** -0.5
        bias = torch.randn(out, generator=generator) * 0.3 if chance.random() < 0.5 else None
        (folder / path).mkdir()
        save_file({"linear.weight": weight, **({} if bias is None else {"linear.bias": bias})},
                  folder / path / "model.safetensors")
        (folder / path / "config.json").write_text(json.dumps(
            {"in_features": size, "out_features": out, "bias": bias is not None,
             "activation_function": f"torch.nn.modules.activation.{name}"}))
        layers.append((weight, bias, ACTIVATIONS[name]))
        modules.append((path, "Dense"))
        size = out
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
         for index, (path, kind) in enumerate(modules)]))
    return mode, layers


class Reference:
    def __init__(self, model, tokenizer, limit, mode, layers, activation):
        self.model, self.tokenizer, self.limit = model, tokenizer, limit
        self.mode, self.layers, self.activation = mode, layers, activation

    def encode(self, first, second, most):
        """None: the text is longer than the model reads."""
        self.tokenizer.no_truncation()
        if most:
            self.tokenizer.enable_truncation(most, strategy="longest_first")
        encoding = self.tokenizer.encode(first, second)
        return None if len(encoding.ids) > self.limit else encoding

    def arguments(self, encoding):
        types = {} if getattr(self.model.config, "type_vocab_size", 0) < 2 else {
            "token_type_ids": torch.tensor([encoding.type_ids])}
        return dict(input_ids=torch.tensor([encoding.ids]), attention_mask=torch.ones(1, len(encoding.ids), dtype=torch.long),
                    **types)

    def vector(self, encoding, dimensions, normalize):
        base = self.model.base_model
        states = base(**self.arguments(encoding)).last_hidden_state[0]
        pooled = {"cls": states[0], "lasttoken": states[-1], "mean": states.mean(0)}[self.mode]
        for weight, bias, activation in self.layers:
            pooled = activation(torch.nn.functional.linear(pooled, weight, bias))
        pooled = pooled[:dimensions]
        return (pooled / pooled.norm() if normalize else pooled).tolist()

    def classes(self, encoding, activation):
        return activation(self.model(**self.arguments(encoding)).logits[0]).tolist()


def cases(reference, labels, class_activation, chance):
    limit = reference.limit
    # the first one fits the shortest model: a request without any text that fits is refused
    short = sorted([text(chance, 1), *[text(chance, chance.randrange(1, 12)) for _ in range(10)]], key=len)
    long = text(chance, 2 * limit)
    size = (reference.layers[-1][0].shape[0] if reference.layers else reference.model.config.hidden_size)
    identity = lambda x: x

    def case(record, texts, compute, most=None):
        numbers = []
        for entry in texts:
            encoding = reference.encode(*(entry if isinstance(entry, tuple) else (entry, None)), most)
            numbers.append(None if encoding is None else compute(encoding))
        return {"record": json.dumps(record), "data": numbers}

    def vectors(record, texts, most=None):
        return case({"task": "embed", **record}, texts, most=most, compute=lambda encoding: reference.vector(
            encoding, record.get("dimensions"), record.get("normalize", True)))

    yield vectors({"prompt": short[0], "normalize": False}, [short[0]])
    yield vectors({"input": [*short[:4], long, *short[4:]]}, [*short[:4], long, *short[4:]])
    yield vectors({"input": [short[1], long], "dimensions": size // 2, "truncate_prompt_tokens": -1}, [short[1], long], limit)
    if not labels:
        return
    pairs = [(short[1], short[2]), (short[3], long), (long, short[4]), (long, text(chance, 3 * limit))]
    plain = [{"text": first, "text_pair": second} for first, second in pairs]
    yield case({"task": "classify", "input": [short[0], *plain]}, [short[0], *pairs],
               lambda encoding: reference.classes(encoding, class_activation))
    most = chance.randrange(12, limit)
    yield case({"task": "classify", "input": plain, "truncate_prompt_tokens": most, "use_activation": False}, pairs,
               lambda encoding: reference.classes(encoding, identity), most)
    if labels == 1:
        yield case({"task": "rerank", "query": short[0], "documents": [*short, long]},
                   [(short[0], document) for document in [*short, long]],
                   lambda encoding: reference.classes(encoding, reference.activation))


def write_model(folder, family, row, draw_options, fill, chance):
    """Writes a random model and expected.json; returns its options."""
    folder = pathlib.Path(folder)
    generator = torch.Generator().manual_seed(chance.getrandbits(32))
    options = draw_options(row, chance)
    labels = 0 if row.get("vectors_only") else chance.choice([1, 1, 3])
    loader = AutoModelForSequenceClassification if labels else AutoModel
    more = {"num_labels": labels} if labels else {}
    model = loader.from_config(CONFIG_MAPPING[row.get("type", family)](**row.get("config", dict)(options), **more),
                               attn_implementation="eager")
    fill(model, row, generator)
    model.to(torch.float32).save_pretrained(folder)
    tokenizer = write_tokenizer(folder, chance.choice(row["frames"]))
    mode, layers = write_modules(folder, model.config.hidden_size, chance, generator)
    activation, class_activation = torch.sigmoid, torch.sigmoid if labels == 1 else lambda x: x.softmax(-1)
    if labels == 1 and chance.random() < 0.4:
        edit_config(folder, lambda config: config.update(
            sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}))
        activation = class_activation = lambda x: x
    if labels > 1 and chance.random() < 0.4:
        edit_config(folder, lambda config: config.update(problem_type="multi_label_classification"))
        class_activation = torch.sigmoid
    model = loader.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").float().eval()
    reference = Reference(model, tokenizer, row["limit"](options), mode, layers, activation)
    with torch.inference_mode():
        found = list(cases(reference, labels, class_activation, chance))
    (folder / "expected.json").write_text(json.dumps({"cases": found})[len('{"cases": '):-1] + "\n")
    return {**options, "labels": labels, "pooling": mode, "dense": len(layers)}


def main():
    import random_models
    folder, family, seed = sys.argv[1:]
    row = random_models.all_rows()[family]
    print(write_model(folder, family, row, random_models.draw_options, random_models.fill,
                      random.Random(f"{seed} {family} 0")))


if __name__ == "__main__":
    main()
