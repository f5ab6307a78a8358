package ollama

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// Regular templates are converted to ollama templates with the same output.
func TestConvert(t *testing.T) {
	const generation = "{% if add_generation_prompt %}"
	for name, c := range map[string]struct {
		source, bos string
		system      bool
		want        string // prompt of system S, user U, assistant A, user V
	}{
		"ChatML": {"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + generation + "<|im_start|>assistant\n{% endif %}", "", true,
			"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
		"ChatML without a generation prompt": {"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", "", true,
			"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
		"ChatML with a system of its own": {"{% if messages[0].role != 'system' %}<|im_start|>system\nYou are kind.<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
			generation + "<|im_start|>assistant\n{% endif %}", "", true,
			"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
		"llama 2": {"{% if messages[0].role == 'system' %}{% set s = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% set messages = messages[1:] %}{% else %}{% set s = '' %}{% endif %}" +
			"{% for m in messages %}{% if m.role == 'user' %}<s>[INST] {{ (s if loop.first else '') + m.content }} [/INST]{% else %} {{ m.content }} </s>{% endif %}{% endfor %}", "<s>", true,
			"[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
		"gemma, without a system": {"{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}" +
			generation + "<start_of_turn>model\n{% endif %}", "<bos>", false, ""},
		"braces": {"{% for m in messages %}{{ '{{' + m.role + '}}' + m.content + '\n' }}{% endfor %}" + generation + "{{ '{{assistant}}' }}{% endif %}", "", true,
			"{{system}}S\n{{user}}U\n{{assistant}}A\n{{user}}V\n{{assistant}}"},
	} {
		t.Run(name, func(t *testing.T) {
			template := need.Value(chat.Parse(name, c.source))(t)
			made := need.Value(Convert(template, chat.Options{Variables: map[string]any{"bos_token": c.bos, "eos_token": "</s>"}}, c.bos))(t)
			require.Equal(t, c.system, made.HasSystem)
			if c.system {
				got := need.Value(made.Render(chat.NewMessage("system", "S"), chat.NewMessage("user", "U"), chat.NewMessage("assistant", "A"), chat.NewMessage("user", "V")))(t)
				require.Equal(t, c.want, got)
			}
		})
	}
	for name, source := range map[string]string{
		"only the last answer": "{% for m in messages %}{% if m.role == 'user' or loop.index0 >= messages|length - 2 %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}",
		"numbered":             "{% for m in messages %}[{{ loop.index }}]{{ m.content }}{% endfor %}",
		"that raises":          "{{ raise_exception('never') }}",
		"that trims words":     "{% for m in messages %}[{{ m.role }}]{{ m.content | upper }}{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			template := need.Value(chat.Parse(name, source))(t)
			_, err := Convert(template, chat.Options{}, "")
			require.Error(t, err)
		})
	}
}
