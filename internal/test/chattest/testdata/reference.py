"""Renders chat templates by transformers: the reference of tests.

    reference.py templates CONVERSATIONS TEMPLATE...
    reference.py language FILE

The first form writes a line of JSON for each template, conversation and setting: the text with the spans of
{% generation %} in code points, or the error. The second renders the templates of a file such as language.json again
and writes the file as it should be.
"""

import datetime
import json
import sys

from transformers.utils import chat_template_utils as utils


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 2, 3, 4, 5, 6)


utils.datetime = Clock

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
SETTINGS = [
    {"add_generation_prompt": False},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"continue_final_message": True},
]


def render(template, conversation, setting):
    messages = utils._normalize_chat_messages(conversation["messages"])
    mask = not setting.get("continue_final_message")
    try:
        (text,), spans = utils.render_jinja_template(
            [messages],
            tools=conversation.get("tools"),
            documents=conversation.get("documents"),
            chat_template=template,
            return_assistant_tokens_mask=mask,
            **VARIABLES,
            **setting,
        )
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"text": text, "generated": spans[0] if mask else None}


def templates(conversations, names):
    conversations = json.load(open(conversations))
    for name in names:
        template = open(name, newline="").read()
        for i, conversation in enumerate(conversations):
            for n, setting in enumerate(SETTINGS):
                result = render(template, conversation, setting)
                print(json.dumps({"template": name, "conversation": i, "setting": n, **result}))


def language(name):
    greeting = {"messages": [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1 é"}]}
    samples = []
    for sample in json.load(open(name)):
        result = render(sample["template"], greeting, {})
        result.pop("generated", None)
        fields = {"template": sample["template"], **result}
        samples.append(",\n  ".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in fields.items()))
    print("[\n {" + "},\n {".join(samples) + "}\n]")


if sys.argv[1] == "language":
    language(sys.argv[2])
else:
    templates(sys.argv[2], sys.argv[3:])
