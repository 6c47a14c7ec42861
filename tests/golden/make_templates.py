"""Renders chat templates with the reference (transformers, which runs Jinja2) and writes the cases that
tests/golden/test_templates.c checks. tests/golden/compare_templates.py compares many templates without a file.

    make_templates.py OUT.json TEMPLATE.jinja...

A template is rendered from the conversations of chat_records.py; one in a folder tools/ from those of
tool_records.py; one in a folder features/ from the record in the comment of its first line.

Needs: pip install transformers jinja2.
"""
import json
import os
import sys
from datetime import datetime, timezone

import jinja2
from transformers.utils import chat_template_utils

from chat_records import RECORDS
from tool_records import CONVERSATIONS

UNIX_SECONDS = 1763683200  # 21 Nov 2025
# The templates of this folder that read a content as a list of parts. Written by hand, so that the cases prove the rule
# of codec/template/jinja_content.c.
READ_PARTS = ("parts.jinja", "tagged.jinja")


class FixedTime(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(UNIX_SECONDS, timezone.utc)


chat_template_utils.datetime = FixedTime


def opened(message):
    """The message with the arguments of its calls as objects, which templates expect; OpenAI's API has them as JSON
    texts."""
    if not isinstance(message.get("tool_calls"), list):
        return message
    message = json.loads(json.dumps(message))
    for call in message["tool_calls"]:
        function = call.get("function", {})
        if isinstance(function.get("arguments"), str):
            try:
                found = json.loads(function["arguments"] or "{}")
            except ValueError:
                continue
            function["arguments"] = found if isinstance(found, dict) else function["arguments"]
    return message


def reads_parts(source):
    """Whether a template reads the content of a message as a list of parts: it loops over one, or picks from it with
    a filter. vLLM's choice between "openai" and "string" follows the same rule, without parameters of macros and
    filters. Used in comparisons of many templates."""
    root = chat_template_utils._compile_jinja_template(source).environment.parse(source)
    nodes = jinja2.nodes
    names, macros = set(), set()

    def is_content(node):
        if isinstance(node, nodes.Name):
            return node.name in names
        if isinstance(node, nodes.Getattr):
            return node.attr == "content"
        if isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Slice):
                return is_content(node.node)
            return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
        if isinstance(node, nodes.Call):
            return (isinstance(node.node, nodes.Getattr) and node.node.attr == "get" and bool(node.args)
                    and isinstance(node.args[0], nodes.Const) and node.args[0].value == "content")
        if isinstance(node, nodes.Filter):
            return is_content(node.node)
        if isinstance(node, (nodes.And, nodes.Or)):
            return is_content(node.left) or is_content(node.right)
        return isinstance(node, nodes.CondExpr) and (is_content(node.expr1) or is_content(node.expr2))

    known = -1
    while known < len(names) + len(macros):
        known = len(names) + len(macros)
        for node in root.find_all(nodes.Assign):
            if isinstance(node.target, nodes.Name) and is_content(node.node):
                names.add(node.target.name)
        for node in root.find_all(nodes.With):
            names.update(target.name for target, value in zip(node.targets, node.values) if is_content(value))
        for node in root.find_all(nodes.Call):
            if isinstance(node.node, nodes.Name) and any(map(is_content, node.args + [one.value for one in node.kwargs])):
                macros.add(node.node.name)
        for node in root.find_all(nodes.Macro):
            if node.name in macros:
                names.update(one.name for one in node.args)
    return (any(is_content(loop.iter) for loop in root.find_all(nodes.For))
            or any(one.name in ("map", "selectattr", "rejectattr") and is_content(one.node)
                   for one in root.find_all(nodes.Filter)))


def joined(message):
    """The message with the texts of its content's parts joined, as vLLM does for a template that reads a text."""
    if not isinstance(message.get("content"), list):
        return message
    texts = []
    for part in message["content"]:
        found = [part] if isinstance(part, str) else [part.get(name) for name in ("text", "refusal", "thinking")]
        texts += [text for text in found if isinstance(text, str)][:1] or [None]
    return {**message, "content": "\n".join(texts)}  # TypeError for a part without text


def reference(source, record, parts=None, bos="<s>", eos="</s>"):
    """(True, text), or (False, reason) when the reference refuses the template or the messages. Does
    the same as apply_chat_template of a tokenizer, from the messages on, and also joins contents. parts: whether the
    template reads lists of parts; None: decided by reads_parts."""
    messages = [{key: value for key, value in opened(one).items() if value is not None} for one in record["messages"]]
    continues = record.get("continue_final_message", False)
    try:
        if not (reads_parts(source) if parts is None else parts):
            messages = [joined(one) for one in messages]
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[messages], tools=record.get("tools"), documents=record.get("documents"),
            chat_template=source, continue_final_message=continues,
            add_generation_prompt=record.get("add_generation_prompt", not continues),
            bos_token=bos, eos_token=eos, **record.get("chat_template_kwargs", {}))
        rendered[0].encode()
        return True, rendered[0]
    except RecursionError:
        return False, "recursion"
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError,
            SyntaxError) as error:
        return False, "%s: %s" % (type(error).__name__, error)


def records_of(path, source):
    folder = os.path.basename(os.path.dirname(path))
    if folder != "features":
        return CONVERSATIONS if folder == "tools" else RECORDS
    return [json.loads(source.split("\n", 1)[0].removeprefix("{#").removesuffix("#}"))]


def write(path, templates):
    """Writes the cases of (name, source, records, parts) to path; parts: see reference."""
    groups = []
    for name, source, records, parts in templates:
        cases = []
        for record in records:
            rendered, text = reference(source, record, parts)
            cases.append({"record": json.dumps(record, ensure_ascii=False),
                          "expected" if rendered else "refused": text})
        groups.append({"name": name, "template": source, "cases": cases})
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"unix_seconds": UNIX_SECONDS, "bos": "<s>", "eos": "</s>", "templates": groups}, out,
                  ensure_ascii=False, indent=0)
    cases = [case for group in groups for case in group["cases"]]
    print(path, len(cases), "cases,", sum("refused" in case for case in cases), "refused")


def main():
    templates = []
    for path in sys.argv[2:]:
        source = open(path, encoding="utf-8").read()
        name = os.path.basename(path)
        templates.append((name, source, records_of(path, source), name in READ_PARTS))
    write(sys.argv[1], templates)


if __name__ == "__main__":
    main()
