package data

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Labelled answers in all forms have the prompt, the answer and the label of one. A pair is two of them.
func TestLabelFormats(t *testing.T) {
	tok := chatTokenizer(t, false)
	e := newEncoder(t, tok, EncoderOptions{Template: parse(t, chatML)})
	const user, good = `{"role": "user", "content": "U"}`, `{"role": "assistant", "content": "A"}`
	const want = "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n«A<|im_end|>»\n"
	for line, label := range map[string]Label{
		`{"prompt": "U", "completion": "A", "label": true}`:                                                         Desirable,
		`{"prompt": "U", "completion": "A", "label": false}`:                                                        Undesirable,
		`{"prompt": "U", "completion": "A", "label": 1}`:                                                            Desirable,
		`{"question": "U", "answer": "A", "label": "False"}`:                                                        Undesirable,
		`{"instruction": "U", "output": "A", "label": "0"}`:                                                         Undesirable,
		`{"messages": [` + user + `, ` + good + `], "label": true}`:                                                 Desirable,
		`{"prompt": [` + user + `], "completion": [` + good + `], "label": false}`:                                  Undesirable,
		`{"conversations": [{"from": "human", "value": "U"}, {"from": "gpt", "value": "A"}], "kto_tag": "true"}`:    Desirable,
		`{"messages": [` + user + `, ` + good + `], "system": "", "completion": "what is not used", "label": true}`: Desirable,
	} {
		all, err := readAll([]string{write(t, "a.jsonl", line)}, ReadOptions{Labels: true})
		require.NoError(t, err, line)
		require.Len(t, all, 1)
		row, err := e.encodeLabelled(all[0])
		require.NoError(t, err, line)
		require.Len(t, row, 1)
		require.Equal(t, want, FormatSample(tok, row[0], Marks{"«", "»"}), line)
		require.Equal(t, label, row[0].Label, line)
	}

	// Of a conversation, the last answer is judged.
	all, err := readAll([]string{write(t, "a.jsonl", `{"messages": [`+user+`, `+good+`, `+user+`, `+good+`], "label": true}`)}, ReadOptions{Labels: true})
	require.NoError(t, err)
	row := need.Value(e.encodeLabelled(all[0]))(t)
	require.Equal(t, strings.NewReplacer("«", "", "»", "").Replace(want)+want, FormatSample(tok, row[0], Marks{"«", "»"}))

	all, err = readAll([]string{write(t, "a.jsonl", `{"prompt": "U", "chosen": "A", "rejected": "B"}`)}, ReadOptions{Labels: true})
	require.NoError(t, err)
	var answers []string
	for _, x := range all[0].labelled() {
		answers = append(answers, x.Completion+" "+string(rune('0'+x.Label)))
	}
	require.Equal(t, []string{"A 1", "B 2"}, answers)
}

// Each broken label has its message.
func TestBrokenLabels(t *testing.T) {
	const user, good = `{"role": "user", "content": "U"}`, `{"role": "assistant", "content": "A"}`
	for line, want := range map[string]string{
		`{"prompt": "U", "completion": "A"}`:                                                `the loss judges each answer by its label, but the record has no "label"; add it, or name the key that has it`,
		`{"prompt": "U", "completion": "A", "label": null}`:                                 `the loss judges each answer by its label, but the record has no "label"; add it, or name the key that has it`,
		`{"prompt": "U", "completion": "A", "label": "good"}`:                               `"label" is "good", which is not a label; write true for a desirable answer, and false for an undesirable one`,
		`{"prompt": "U", "completion": "A", "label": 0.5}`:                                  `"label" is 0.5, which is not a label; write true for a desirable answer, and false for an undesirable one`,
		`{"prompt": "U", "completion": "A", "label": [true]}`:                               `"label" is [true], which is not a label; write true for a desirable answer, and false for an undesirable one`,
		`{"prompt": "U", "completion": "A", "label": -1}`:                                   `"label" is -1, which is not a label; write true for a desirable answer, and false for an undesirable one`,
		`{"prompt": "U", "completion": " ", "label": true}`:                                 `the answer is empty; remove the record`,
		`{"prompt": "U", "label": true}`:                                                    `the record has "prompt", but "completion" is missing; add it, or name the key that has it`,
		`{"text": "A", "label": true}`:                                                      `the loss judges answers to prompts, but the record has only "text"; add it, or name the key that has it`,
		`{"messages": [` + user + `], "label": true}`:                                       `the conversation ends without an answer that the label could judge; remove the record`,
		`{"messages": [` + good + `], "label": true}`:                                       `the answer has no "prompt"; add it, or name the key that has it`,
		`{"messages": [` + user + `, {"role": "assistant", "content": ""}], "label": true}`: `the answer is empty; remove the record`,
		`{"prompt": "U", "completion": "A", "label": true, "kto_tag": false}`:               "",
	} {
		path := write(t, "a.jsonl", line)
		_, err := readAll([]string{path}, ReadOptions{Labels: true})
		if want == "" { // the key itself comes first
			require.NoError(t, err, line)
			continue
		}
		require.EqualError(t, err, path+":1: "+want, line)
	}
}

// Each prompt also has the answer of the nearest earlier record with another prompt, or of the first other one.
func TestMismatched(t *testing.T) {
	var all []Example
	for _, x := range []string{"a1", "a2", "b3", "b4", "a5", "c6"} {
		all = append(all, example(t, `{"prompt": "`+x[:1]+`", "completion": "`+x[1:]+`"}`))
	}
	var found []string
	for x, err := range withMismatched(sequenceOf(all)) {
		require.NoError(t, err)
		require.Equal(t, x.Prompt, x.mismatched.Prompt)
		require.Equal(t, x.mismatched.Completion, x.mismatched.Messages[1].Content())
		require.Equal(t, x.Prompt, x.mismatched.Messages[0].Content())
		require.Equal(t, Mismatched, x.mismatched.Label)
		found = append(found, x.Prompt+x.Completion+" "+x.mismatched.Completion)
	}
	require.Equal(t, []string{"a1 3", "a2 3", "b3 2", "b4 2", "a5 4", "c6 5"}, found)

	for range withMismatched(sequenceOf(all)) { // stops
		break
	}
	for range withMismatched(sequenceOf(all[2:])) {
		break
	}
	var faults []string
	for _, err := range withMismatched(sequenceOf(all[:2])) {
		faults = append(faults, err.Error())
	}
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "all records have the same prompt, and the loss kto compares with answers to other prompts; add records with other prompts, or choose the loss apo-zero-unpaired")

	// Texts and messages mix.
	text, messages := Example{Completion: "T"}, example(t, `{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]}`)
	messages.PromptMessages = 1
	require.Equal(t, "A", text.with(&messages).Completion)
	require.Equal(t, "T", messages.with(&text).Messages[1].Content())
}

// Labelled answers are rows with a mismatched answer or without, from the cache as well; contradictions are counted.
func TestLoadLabels(t *testing.T) {
	answer := func(prompt, completion, label string) string {
		return `{"prompt": "` + prompt + `", "completion": "` + completion + `", "label": ` + label + "}\n"
	}
	in := inFolder(t, map[string]string{
		"l.jsonl": answer("a", "yes", "true") + answer("a", "no", "false") + answer("b", "1", "true") + answer("a", "yes", "false") + answer("a", "no", "false") + answer("c", "", "true"),
		"p.jsonl": `{"prompt": "a", "chosen": "yes", "rejected": "no"}` + "\n" + `{"prompt": "b", "chosen": "1", "rejected": "2"}` + "\n" + `{"prompt": "a", "chosen": "no", "rejected": "yes"}` + "\n",
		"t.txt":   "text",
	})
	v := withTemplate(t, chatML)
	load := func(path string, o LoadOptions) (*Loaded, error) {
		o.Length = 60
		l, err := Load(context.Background(), v, []string{in(path)}, o)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return l, err
	}
	labels := func(d *Dataset) (all []Label) {
		for i := range d.Len() {
			for _, s := range need.Value(d.Row(i))(t) {
				all = append(all, s.Label)
			}
		}
		return all
	}
	const d, u, m = Desirable, Undesirable, Mismatched
	cache := t.TempDir()
	for _, fromCache := range []bool{false, true} {
		l := need.Value(load("l.jsonl", LoadOptions{Labels: true, Mismatched: true, SkipBroken: true, Cache: cache}))(t)
		require.Equal(t, fromCache, l.Stats.FromCache)
		require.Equal(t, []Label{d, m, u, m, d, m, u, m, u, m}, labels(l.Data))
		require.Equal(t, [5]int{120, 5, 1, 1, 1}, [5]int{l.Data.Length, l.Data.Len(), l.Broken.Total(), l.Copies, l.Contradictions})
		require.Equal(t, []Label{d, d}, labels(need.Value(l.Data.Preferred())(t)))
	}
	l := need.Value(load("l.jsonl", LoadOptions{Labels: true, SkipBroken: true, Cache: cache}))(t)
	require.Equal(t, []Label{d, u, d, u, u}, labels(l.Data))
	require.Equal(t, [2]int{60, 1}, [2]int{l.Data.Length, l.Contradictions})

	// Pairs are two answers each, and contradict each other by their order.
	l = need.Value(load("p.jsonl", LoadOptions{Labels: true}))(t)
	require.Equal(t, []Label{d, u, d, u, d, u}, labels(l.Data))
	require.Equal(t, 2, l.Contradictions)
	l = need.Value(load("p.jsonl", LoadOptions{Pairs: true}))(t)
	require.Equal(t, []Label{d, u, d, u, d, u}, labels(l.Data))
	require.Equal(t, [2]int{0, 1}, [2]int{l.Copies, l.Contradictions})

	for want, o := range map[string]LoadOptions{
		"the options Pairs and Labels exclude each other, and Mismatched needs Labels": {Pairs: true, Labels: true},
		"which has one label; cut or drop long records":                                {Labels: true, TooLong: SplitLong},
	} {
		_, err := load("l.jsonl", o)
		require.ErrorContains(t, err, want)
	}
	_, err := load("t.txt", LoadOptions{Labels: true})
	require.ErrorContains(t, err, "the loss judges answers by their labels, and text has none; give records with a prompt, a completion and a label")
}
