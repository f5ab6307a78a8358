package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// turnsOnly has headers and no generation prompt.
const turnsOnly = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

func prompts(prompt string) string {
	return turnsOnly + "{% if add_generation_prompt %}" + prompt + "{% endif %}"
}

// A generation prompt must begin the turn of an answer, at least up to the mark-up that names the speaker. Training
// then starts at the end of RenderPrompt.
func TestCheckPrompt(t *testing.T) {
	const (
		question = "<|im_start|>user\nQ<|im_end|>\n"
		header   = "<|im_start|>assistant\n"
		parts    = "{% for m in messages %}<|{{ m.role }}|>{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
		thinks   = "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}</think>{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
		channels = "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
		distills = "{% for m in messages %}{% if m.role == 'user' %}<|User|>{{ m.content }}{% else %}<|Assistant|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
		inst     = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
	)
	for _, c := range []struct{ name, template, text, want string }{
		{"the header", prompts("<|im_start|>assistant\n"), question + header, ""},
		{"a header and a block of reasoning", prompts("<|im_start|>assistant\n<think>\n"), question + header + "<think>\n", ""},
		{"the header without its line end", prompts("<|im_start|>assistant"), question + "<|im_start|>assistant", ""},
		{"blocks of reasoning that differ", thinks, "<|user|>Q<|assistant|><think>", ""},
		{"a channel that the model chooses", channels, "<|start|>user<|message|>Q<|end|><|start|>assistant", ""},
		{"reasoning that history drops", distills, "<|User|>Q<|Assistant|><think>\n", ""},
		{"no header at all", inst, "[INST] Q [/INST]", ""},
		{"no header, and a block of reasoning", inst + "{% if add_generation_prompt %}<think>{% endif %}", "[INST] Q [/INST]<think>", ""},
		{"a prompt that is always written", strings.ReplaceAll(inst, " [/INST]", " [/INST]<A>"), "[INST] Q [/INST]<A>", ""},
		{"no prompt", turnsOnly, question + header, `the chat template has no generation prompt, but writes "<|im_start|>assistant\n" before answers`},
		{"no prompt, for contents in parts", parts, "<|user|>Q<|assistant|>", `the chat template has no generation prompt, but writes "<|assistant|>" before answers`},
		{"another role", prompts("<|im_start|>model\n"), question + header, `the chat template's generation prompt is "<|im_start|>model\n", but it writes "<|im_start|>assistant\n" before answers`},
		{"a prompt that names no role", prompts("<|im_start|>"), question + header, `the chat template's generation prompt is "<|im_start|>", but it writes "<|im_start|>assistant\n" before answers`},
		{"other tokens", prompts("### Answer:\n"), question + header, `the chat template's generation prompt is "### Answer:\n", but it writes "<|im_start|>assistant\n" before answers`},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := need.Value(chat.Parse("test", c.template))(t)
			o := &chat.Options{}
			if c.want == "" {
				require.NoError(t, template.CheckPrompt(o))
			} else {
				require.EqualError(t, template.CheckPrompt(o), c.want)
			}
			talk := template.Forms(o).Convert(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Q")}})
			r := need.Value(template.RenderPrompt(talk, o))(t)
			require.Equal(t, c.text, r.Text)
			require.Equal(t, len(r.Text), r.Spans[len(r.Spans)-1].To)
			require.Empty(t, r.Trained(chat.Last))
			require.Empty(t, r.OpenEnd())
			require.Len(t, talk.Messages, 1)
		})
	}
	template := need.Value(chat.Parse("test", `{{ raise_exception("no") }}`))(t)
	require.NoError(t, template.CheckPrompt(nil), "it refuses everything")
	_, err := template.RenderPrompt(greeting, nil)
	require.ErrorContains(t, err, "no")
	_, err = template.RenderPrompt(greeting, &chat.Options{ContinueFinalMessage: true})
	require.ErrorContains(t, err, "set only one of them")
	require.EqualError(t, (*chat.PromptError)(nil), "the generation prompt is not the start of answers")
}
