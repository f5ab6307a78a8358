package data

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// talkOf returns a record of a conversation.
func talkOf(system, user, assistant string) string {
	line := `{"messages": [`
	if system != "" {
		line += fmt.Sprintf(`{"role": "system", "content": %q}, `, system)
	}
	return line + fmt.Sprintf(`{"role": "user", "content": %q}, {"role": "assistant", "content": %q}]}`, user, assistant) + "\n"
}

// talks returns valid records of similar lengths, in several languages.
func talks(from, n int) string {
	var b strings.Builder
	for i := range n {
		what := []string{"How much is %d and one?", "Was ergibt %d plus eins? «Spaß“", "Combien font %d et un, à ton avis…”", "%d に一を足すと?", "Сколько будет %d и один?"}[(from+i)%5]
		b.WriteString(talkOf("", fmt.Sprintf(what, from+i), fmt.Sprint("It is ", from+i+1)))
	}
	return b.String()
}

func inspect(t *testing.T, v *tokenizer.Tokenizer, files map[string]string, o InspectOptions) *Inspection {
	t.Helper()
	in := inFolder(t, files)
	if o.Length == 0 {
		o.Length = 256
	}
	if _, ok := files["held.jsonl"]; ok {
		o.Held = []string{in("held.jsonl")}
	}
	return need.Value(Inspect(context.Background(), v, []string{in("a.jsonl")}, o))(t)
}

func names(findings []Finding) (list []string) {
	for _, f := range findings {
		if f.Ruins {
			list = append(list, f.Name)
		}
	}
	return list
}

// Each fault planted in valid data is found, and nothing else.
func TestInspectFindsFaults(t *testing.T) {
	const sound, generation = 12, `{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	turns := func(end string) string {
		return `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}` + end + `{% endfor %}` + generation
	}
	for _, c := range []struct {
		name     string
		template string // the model's template; ChatML if ""
		given    string // template set in the options
		planted  string // records after the valid ones
		options  InspectOptions
		held     string
		want     string
		text     string
	}{
		{name: "a record without an answer", planted: `{"messages": [{"role": "user", "content": "U"}]}` + "\n", want: "nothing-trained", text: "a.jsonl:13: no token is trained"},
		{name: "weights of 0", planted: `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A", "weight": 0}]}` + "\n", want: "nothing-trained", text: "weight 0"},
		{name: "no JSON", planted: "{broken\n", want: "broken-records", text: "a.jsonl:13"},
		{name: "an end that is another token", template: turns(`{{ '<|im_start|>' if m.role == 'assistant' else '<|im_end|>' }}`), want: "foreign-end", text: `"<|im_start|>"`},
		{name: "no end", template: turns(`{{ '\n' }}`), want: "open-answer", text: "12 records, first"},
		{name: "an end that is not trained", template: `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% generation %}{{ m.content if m.role == 'assistant' }}{% endgeneration %}{{ m.content if m.role != 'assistant' }}{{ '<|im_end|>' }}{% endfor %}` + generation,
			want: "untrained-end", text: `"<|im_end|>"`},
		{name: "BOS twice", template: "{{ bos_token + bos_token }}" + chatML, want: "doubled-bos", text: "BOS twice"},
		{name: "no BOS", template: "{{ bos_token }}" + chatML, given: chatML, want: "missing-bos other-template", text: "without BOS"},
		{name: "another template", given: turns("<|im_end|>"), template: chatML, want: "other-template", text: "given by Template differs"},
		{name: "a template with tokens that there are not", given: strings.ReplaceAll(chatML, "im_start", "header"), want: "other-template missing-tokens", text: `"<|header|>"`},
		{name: "tokens that a base without a template lacks", template: "none", given: strings.ReplaceAll(chatML, "im_start", "header"), want: "missing-tokens", text: `"<|header|>"`},
		{name: "no generation prompt", template: strings.TrimSuffix(turns("<|im_end|>"), generation), want: "other-prompt",
			text: `the chat template has no generation prompt, but writes "<|im_start|>assistant\n" before answers: programs that follow the template give a prompt that was not trained; with Template, give a template with a generation prompt equal to the start of its answers`},
		{name: "a generation prompt of another role", template: strings.ReplaceAll(turns("<|im_end|>"), "assistant", "model"), want: "other-prompt",
			text: `the chat template's generation prompt is "<|im_start|>model\n", but it writes "<|im_start|>assistant\n" before answers: `},
		{name: "users after each other", template: turns("<|im_end|>"), planted: `{"messages": [{"role": "user", "content": "U"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "A"}]}` + "\n", want: "role-order", text: "user after user"},
		{name: "the assistant first", template: turns("<|im_end|>"), planted: `{"messages": [{"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]}` + "\n", want: "role-order", text: "assistant first"},
		{name: "a user last", template: turns("<|im_end|>"), planted: `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}]}` + "\n", want: "role-order", text: "user last"},
		{name: "a system in the middle", template: turns("<|im_end|>"), planted: `{"messages": [{"role": "user", "content": "U"}, {"role": "system", "content": "S"}, {"role": "assistant", "content": "A"}]}` + "\n", want: "role-order", text: "system after user"},
		{name: "an empty answer", planted: talkOf("", "U", " "), want: "empty-answer", text: "1 record, first"},
		{name: "an answer of which nothing is seen", planted: talkOf("", "U", "\u200b\n"), want: "empty-answer", text: "1 record, first"},
		{name: "a record that is held out", held: talks(3, 1) + talks(400, 3), want: "held-out-too", text: "a.jsonl:4"},
		{name: "Latin-1", planted: talkOf("", "Wie heiÃŸt du? CafÃ© au lait", "Ich heiÃŸe so"), want: "mojibake", text: `"Ã©"`},
		{name: "quotes in Windows-1252", planted: talkOf("", "U", "Itâ€™s good"), want: "mojibake", text: `"â€™"`},
		{name: "Cyrillic in Windows-1252", planted: talkOf("", "U", "ÐŸÑ€Ð¸Ð²ÐµÑ‚"), want: "mojibake", text: "another encoding"},
		{name: "lost characters", planted: talkOf("", "U", "caf\ufffd"), want: "mojibake", text: "lost"},
		{name: "one long sample", planted: talkOf("", "U", strings.Repeat("word ", 180)), options: InspectOptions{LoadOptions: LoadOptions{Length: 2048}}, want: "padding", text: "Packed would need 1 row instead of 13"},
		{name: "answers that are cut", planted: strings.Repeat(talkOf("", strings.Repeat("U ", 200), "A long answer")+talkOf("", strings.Repeat("V ", 200), "Another"), 10), want: "lost-answers", text: "too long for Length 256"},
		{name: "questions that leave no room for an answer", planted: strings.Repeat(talkOf("", strings.Repeat("U ", 400), "A"), 20), want: "lost-answers", text: "32 records, and 20 lose"},
		{name: "nothing but these", planted: "alone" + strings.Repeat(talkOf("", strings.Repeat("U ", 400), "A"), 3), want: "lost-answers", text: "3 records, and 3 lose"},
		{name: "an empty block of reasoning", template: lastThinks, want: "empty-reasoning", text: "not to reason"},
		{name: "an empty block of reasoning in the data", planted: talkOf("", "U", "<think>\n\n</think>\n\nA"), want: "empty-reasoning", text: "or the data"},
		{name: "an end of turn in an answer", planted: talkOf("", "U", "A<|im_end|> "), want: "written-end", text: `"<|im_end|>" as text`},
		{name: "turns in an answer", planted: talkOf("", "U", "A<|im_end|>\n<|im_start|>user\nV"), want: "written-end", text: `"<|im_end|>" as text`},
		{name: "a record that is held out in another format", held: `{"prompt": "How much is 5 and one? ", "completion": "It is\n6"}` + "\n", want: "held-out-too", text: "a.jsonl:6"},
		{name: "mark-up in a prompt", planted: "", want: "marked-up", text: "special tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := c.template
			switch template {
			case "":
				template = chatML
			case "none":
				template = ""
			}
			if c.given != "" {
				c.options.Encode.Template = parse(t, c.given)
			}
			files := map[string]string{"a.jsonl": talks(0, sound) + c.planted}
			if alone, is := strings.CutPrefix(c.planted, "alone"); is {
				files["a.jsonl"] = alone
			}
			if c.name == "mark-up in a prompt" {
				files["a.jsonl"] = `{"prompt": "<|im_start|>user\nU<|im_end|>", "completion": "A"}` + "\n"
			}
			if c.held != "" {
				files["held.jsonl"] = c.held
			}
			i := inspect(t, withTemplate(t, template), files, c.options)
			require.Equal(t, c.want, strings.Join(names(i.Findings), " "), "%v", i.Findings)
			require.True(t, i.Ruined())
			require.False(t, i.Ruined(strings.Fields(c.want)...))
			var text strings.Builder
			for _, f := range i.Findings {
				require.Contains(t, FindingNames(), f.Name)
				text.WriteString(f.String() + "\n")
			}
			require.Contains(t, text.String(), c.text)
		})
	}
}

// Valid data has no findings, and is counted.
func TestInspectSound(t *testing.T) {
	for name, template := range map[string]string{
		"ChatML": chatML, "with BOS": withBOS, "the last is open": lastOpen,
		"generation tags": `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
	} {
		t.Run(name, func(t *testing.T) {
			i := inspect(t, withTemplate(t, template), map[string]string{"a.jsonl": talks(0, 28) + talkOf("", "Tags?", "<s>of HTML</s>, and <think></think>") + talkOf("", "Which?", "<think>\nIt\n</think>\n\nA") + talks(7, 2), "held.jsonl": talks(900, 5)}, InspectOptions{Samples: 4})
			require.Empty(t, i.Findings)
			require.Equal(t, 32, i.Examples)
			require.Equal(t, 32, i.Stats.Samples)
			require.Equal(t, 64, i.Turns)
			require.Equal(t, 2, i.Duplicates)
			require.Len(t, i.Lengths, 32)
			require.Len(t, i.Samples, 4)
			require.Equal(t, 16, i.Samples[2].Number)
		})
	}
	v := withTemplate(t, withBOS) // texts begin without BOS, like prompts of text
	for name, record := range map[string]string{"texts": `{"text": "a text %d"}`, "prompts": `{"prompt": "P %d", "completion": "C %[1]d"}`, "instructions": `{"instruction": "U %d", "output": "A %[1]d"}`} {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for n := range 20 {
				fmt.Fprintf(&all, record+"\n", n)
			}
			require.Empty(t, inspect(t, v, map[string]string{"a.jsonl": all.String()}, InspectOptions{}).Findings)
		})
	}
}

// Text has lines instead of records.
func TestInspectText(t *testing.T) {
	line := strings.Repeat("a line that is long ", 5) + "\n"
	in := inFolder(t, map[string]string{"a.txt": "short\nshort\n" + line + line + "CafÃ©\n" + strings.ToUpper(line), "held.txt": strings.ToUpper(line) + "other\n"})
	i := need.Value(Inspect(context.Background(), byteTokenizer(t, false), []string{in("a.txt")}, InspectOptions{LoadOptions: LoadOptions{Length: 32}, Held: []string{in("held.txt")}}))(t)
	require.True(t, i.IsText)
	require.Equal(t, 1, i.Duplicates)
	require.Equal(t, []string{"held-out-too", "mojibake"}, names(i.Findings))
	require.Contains(t, i.Findings[1].String(), in("a.txt")+":5")

	_, err := Inspect(context.Background(), byteTokenizer(t, false), []string{in("none.txt")}, InspectOptions{LoadOptions: LoadOptions{Length: 32}})
	require.Error(t, err)
	_, err = Inspect(context.Background(), byteTokenizer(t, false), []string{in("a.txt")}, InspectOptions{LoadOptions: LoadOptions{Length: 32}, Held: []string{in("none.txt")}})
	require.Error(t, err)
}

func TestMojibake(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "", "Spaß“": "", "né…”": "", "“AMANHÃ” é": "", "25 °C «Å»": "", "привет": "", "日本語": "", "Ñandú ¿qué?": "", "Â": "", "l’été à Âge": "",
		"«AMANHû, «AMANHÃ»": "", "«СССР» и «ВАС…» Рёбра С»": "", "Їжак їсть ґрунт, «ГЄ»": "", "Ђорђе, џеп, ћуприја": "", "MĂRŢIŞOR «APĂ» APĂ…": "", "2σ√π ≥ x√2, ¬Ω": "",
		"«Éa», ‚Ärger‘, „Über“": "", "╔══╗ ╔╗╔╗": "", "CÂŞTIG CÂŞTIG": "", "Þórður ætlaði": "", "NGUYỄN VĂN Ánh, Ăn": "", "İSTANBUL’DA Ğ": "",
		"CafÃ©": "Ã©", "25Â°C": "Â°", "itâ€™s": "â€™", "ðŸ˜€": "ðŸ˜€", "Ð¿Ñ€Ð¸": "Ð¸", "æ—¥æœ¬èªž": "èªž", "a\ufffd": "\ufffd",
		"锟斤拷锟": "锟斤拷", "cafï¿½": "ï¿½", "РџСЂРёРІРµС‚": "Рё", "вЂњquotesвЂќ": "вЂњ", "CafГ©": "Г©", "CafĂ©": "Ă©", "ZaĹĽĂłĹ‚Ä‡": "Ĺ‚", "Caf√©": "√©", "it‚Äôs": "‚Äô", "Ð´Ð° ": "",
	} {
		require.Equal(t, want, mojibake(text), text)
	}
}

func TestHistogram(t *testing.T) {
	counts, width := Histogram([]int{1, 9, 10, 35}, 4)
	require.Equal(t, 9, width)
	require.Equal(t, []int{1, 2, 0, 1}, counts)
	counts, width = Histogram([]int{-4, 1 << 40}, math.MaxInt)
	require.Equal(t, []int{1, 1}, []int{counts[0], counts[len(counts)-1]})
	require.Less(t, len(counts), 1002)
	require.Greater(t, width, 1<<30)
	counts, _ = Histogram(nil, 4)
	require.Nil(t, counts)
}
