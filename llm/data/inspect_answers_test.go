package data

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// many returns n records, made from their indices.
func many(n int, record func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(record(i))
	}
	return b.String()
}

// sentence returns sentences of different lengths.
func sentence(i int) string {
	return strings.Join([]string{"The", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"}[:4+i%6], " ") + fmt.Sprint(" number ", i, strings.Repeat("x", i%7), " today")
}

// Findings about words and answers have the expected text; similar valid data has none.
func TestInspectWordsAndAnswers(t *testing.T) {
	ask := func(i int) string { return fmt.Sprint("Question ", i) }
	answers := func(n int, answer func(i int) string) string {
		return many(n, func(i int) string { return talkOf("", ask(i), answer(i)) })
	}
	cut := func(i int) string {
		text := string(rune('a'+i%26)) + strings.Repeat("o", i%7) + " " + sentence(i)
		return strings.TrimSpace(text[:19]) + strings.Repeat("s", 20-len(strings.TrimSpace(text[:19])))
	}
	messages := func(list string) string { return `{"messages": [` + list + "]}\n" }
	const turns = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	const q, a = `{"role": "user", "content": "What is the capital of France?"}`, `{"role": "assistant", "content": "It is Paris."}`
	for _, c := range []struct{ name, records, want string }{
		{"mark-up of Llama 2", talkOf("", "[INST] U [/INST]", "A"), `foreign-markup: 1 record, first a.jsonl:1: a message begins or ends with "[INST]", which counts as plain text: the template writes the mark-up of turns`},
		{"mark-up of Llama 3", talkOf("", "U<|eot_id|>", "A"), `foreign-markup: 1 record, first a.jsonl:1: a message begins or ends with "<|eot_id|>", which counts as plain text: the template writes the mark-up of turns`},
		{"an end of Gemma", talkOf("", "U", "A <end_of_turn>\n"), `foreign-markup: 1 record, first a.jsonl:1: a message begins or ends with "<end_of_turn>", which counts as plain text: the template writes the mark-up of turns`},
		{"a text for another vocabulary", `{"text": "<|start_header_id|>user<|end_header_id|> U"}`, `foreign-markup: 1 record, first a.jsonl:1: a message begins or ends with "<|start_header_id|>", which counts as plain text: the template writes the mark-up of turns`},
		{"a text for this vocabulary", `{"text": "<|im_start|>user\nU<|im_end|>"}`, ""},
		{"words about mark-up", talkOf("", "What does [INST] mean?", "It begins <|start_header_id|> turns. <s>This</s> is struck"), ""},

		{"NUL", talkOf("", "U", "a") + `{"messages": [{"role": "user", "content": "U\u0000"}, ` + a + "]}\n", `control-characters: 1 record, first a.jsonl:2: the text has the control character U+0000: it is not text, or was decoded wrongly`},
		{"Windows-1252 as Latin-1", messages(`{"role": "user", "content": "it\u0092s"}, ` + a), `control-characters: 1 record, first a.jsonl:1: the text has the control character U+0092: it is not text, or was decoded wrongly`},
		{"white space and colours", messages(`{"role": "user", "content": "a\tb\r\n\fc \u001b[31mred\u001b[0m"}, ` + a), ""},

		{"line ends", talkOf("", "Write a letter", `Dear Sir,\nThank you.\n\nYours`), `escaped-twice: 1 record, first a.jsonl:1: the text has the escape "\\n": it was escaped twice, or never unescaped`},
		{"signs of HTML", talkOf("", "Who?", "Smith&nbsp;&amp; Sons"), `escaped-twice: 1 record, first a.jsonl:1: the text has the escape "&nbsp;": it was escaped twice, or never unescaped`},
		{"letters", talkOf("", "Where?", `In a caf\u00e9`), `escaped-twice: 1 record, first a.jsonl:1: the text has the escape "\\u": it was escaped twice, or never unescaped`},
		{"code", talkOf("", "Print a line", `printf("Hello,\n");`) + talkOf("", "And in shell?", "`echo -e 'a.\\nB'`") + talkOf("", "Which HTML?", "&nbsp;"), ""},
		{"a formula", talkOf("", "The gradient?", `x\nabla f, and \neq 0`) + talkOf("", "Path?", `C:\new\Name`) + talkOf("", "Sign?", "AT&T; R&D"), ""},

		{"an exchange twice", messages(q + "," + a + "," + q + "," + a), `repeated-exchange: 1 record, first a.jsonl:1: a question and its answer occur twice in a conversation: the model learns to repeat itself`},
		{"a question twice", messages(q + "," + a + "," + q + `, {"role": "assistant", "content": "Paris, as I said."}`), ""},
		{"thanks twice", messages(strings.Repeat(`{"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "Welcome"}, `, 2) + q + "," + a), ""},

		{"a tool after a user", messages(q + `, {"role": "tool", "content": "12"}, ` + a), `tool-without-call: 1 record, first a.jsonl:1: a tool answers without a call: the model learns to expect results that it did not ask for`},
		{"a tool after words", messages(q + `, {"role": "assistant", "content": "Let me see."}, {"role": "tool", "content": "12"}, ` + a), `tool-without-call: 1 record, first a.jsonl:1: a tool answers without a call: the model learns to expect results that it did not ask for`},
		{"two tools after a call in words", messages(q + `, {"role": "assistant", "content": "<tool_call>{\"name\": \"f\"}</tool_call>"}, {"role": "tool", "content": "12"}, {"role": "tool", "content": "13"}, ` + a), ""},

		{"answers of one length", answers(30, cut), `cut-answers: 30 answers of 30 end after 20 characters, within a word or sentence, first a.jsonl:1: they were cut, and the model learns to stop there`},
		{"answers of a pattern", answers(30, func(i int) string { return fmt.Sprintf("Item %03d costs %03d euros", i, 2*i) }), ""},
		{"labels of one length", answers(30, func(i int) string { return fmt.Sprintf("%08d", i) }), ""},
		{"headlines", answers(60, sentence), ""},
		{"answers without their ends", answers(40, func(i int) string {
			return "It is so. It is " + sentence(i) + []string{".", ".", ""}[i%3]
		}), `cut-answers: 13 answers of 40 with several sentences end in the middle of a sentence, first a.jsonl:3: they were cut, and the model learns to stop there`},
		{"answers that end with lists", answers(40, func(i int) string {
			return "It is so. It is " + sentence(i) + []string{".", ":\n- first and second of them all", "\nYours, Ann"}[i%3]
		}), ""},

		{"the same answer", answers(60, func(i int) string {
			if i%6 == 5 {
				return sentence(i)
			}
			return "I cannot help with that."
		}), `same-answers: 50 of 60 answers are "I cannot help with that.", first a.jsonl:1: the model learns to answer everything with it`},
		{"a frequent answer", answers(60, func(i int) string {
			if i%3 == 2 {
				return sentence(i)
			}
			return "I cannot help with that."
		}), ""},
		{"a frequent label", answers(60, func(i int) string { return []string{"ham", "ham", "ham", "ham", "ham", "spam"}[i%6] }), ""},

		{"one question", many(30, func(i int) string { return talkOf("", "Tell me!", sentence(i)) }) + answers(30, sentence), `many-answers: 30 of 60 records ask the same question, "Tell me!", but have different answers, first a.jsonl:1`},
		{"several answers to each", many(60, func(i int) string { return talkOf("", ask(i/6), sentence(i)) }), ""},
		{"copies", strings.Repeat(talkOf("", "U", "An answer"), 60), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := inspect(t, withTemplate(t, turns), map[string]string{"a.jsonl": c.records}, InspectOptions{LoadOptions: LoadOptions{Length: 4096}})
			var told []string
			for _, f := range i.Findings {
				require.Contains(t, FindingNames(), f.Name)
				require.True(t, f.Ruins)
				text := f.Name + ": " + f.String()
				if at := strings.Index(text, "first /"); at >= 0 {
					text = text[:at] + "first " + text[at+strings.Index(text[at:], "a.jsonl"):]
				}
				told = append(told, text)
			}
			require.Equal(t, c.want, strings.Join(told, "\n"))
		})
	}
}

// The memory of tallies is bounded.
func TestTallyIsBounded(t *testing.T) {
	var c tally
	for i := range 2 * maxTallied {
		c.add(hashOf(i%(maxTallied+10)), "text", place{"a", i})
	}
	require.Len(t, c.counts, maxTallied)
	require.Equal(t, 2, c.top.n)
}
