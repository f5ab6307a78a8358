package data

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pairs in all forms have the prompt and the answers of one; those without a prompt have what both begin with.
func TestPairFormats(t *testing.T) {
	tok := chatTokenizer(t, false)
	e := newEncoder(t, tok, EncoderOptions{Template: parse(t, chatML)})
	const user, good, bad = `{"role": "user", "content": "U"}`, `{"role": "assistant", "content": "A"}`, `{"role": "assistant", "content": "B"}`
	const prompt = "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
	chatted := [2]string{prompt + "«A<|im_end|>»\n", prompt + "«B<|im_end|>»\n"}
	for line, want := range map[string][2]string{
		`{"prompt": "U", "chosen": "A", "rejected": "B"}`:                                                                                          chatted,
		`{"question": "U", "chosen": "A", "rejected": "B"}`:                                                                                        chatted,
		`{"instruction": "U", "input": "", "chosen": "A", "rejected": "B"}`:                                                                        chatted,
		`{"prompt": [` + user + `], "chosen": [` + good + `], "rejected": [` + bad + `]}`:                                                          chatted,
		`{"prompt": "U", "chosen": [` + good + `], "rejected": [` + bad + `]}`:                                                                     chatted,
		`{"prompt": "U", "chosen": [` + user + `, ` + good + `], "rejected": [` + user + `, ` + bad + `]}`:                                         chatted,
		`{"prompt": [` + user + `], "chosen": "A", "rejected": "B"}`:                                                                               chatted,
		`{"chosen": [` + user + `, ` + good + `], "rejected": [` + user + `, ` + bad + `]}`:                                                        chatted,
		`{"messages": [` + user + `], "chosen": ` + good + `, "rejected": ` + bad + `}`:                                                            chatted,
		`{"conversations": [{"from": "human", "value": "U"}], "chosen": {"from": "gpt", "value": "A"}, "rejected": {"from": "gpt", "value": "B"}}`: chatted,
		`{"chosen": "Human: U\n\nAssistant: A b", "rejected": "Human: U\n\nAssistant: A c"}`: {
			"Human: U\n\nAssistant: A« b</s>»", "Human: U\n\nAssistant: A« c</s>»",
		},
		`{"prompt": "U", "system": "S", "chosen": "A", "rejected": "B"}`: {
			"<|im_start|>system\nS<|im_end|>\n" + chatted[0], "<|im_start|>system\nS<|im_end|>\n" + chatted[1],
		},
		`{"prompt": "U", "chosen": [` + good + `, ` + user + `, ` + good + `], "rejected": [` + good + `, ` + user + `, ` + bad + `]}`: { // of which the first answer is shared
			prompt + "A<|im_end|>\n" + chatted[0], prompt + "A<|im_end|>\n" + chatted[1],
		},
	} {
		all, err := readAll([]string{write(t, "a.jsonl", line)}, ReadOptions{Pairs: true})
		require.NoError(t, err, line)
		require.Len(t, all, 1)
		row, err := e.EncodePair(all[0])
		require.NoError(t, err, line)
		for i := range row {
			require.Equal(t, want[i], FormatSample(tok, row[i], Marks{"«", "»"}), line)
			require.Equal(t, Origin{Line: 1}, row[i].Origin)
		}
		require.Len(t, row, 2)
		require.Empty(t, all[0].unused, line)
	}
	names, err := readAll([]string{write(t, "a.jsonl", `{"q": "U", "better": "A", "worse": "B", "score": 3}`)}, ReadOptions{
		Pairs: true, Keys: map[string]string{"prompt": "q", "chosen": "better", "rejected": "worse"},
	})
	require.NoError(t, err)
	require.Equal(t, [3]string{"U", "A", "B"}, [3]string{names[0].Prompt, names[0].Completion, names[0].Rejected.Completion})
	require.Equal(t, []string{"score"}, names[0].unused)
	raw := newEncoder(t, tok, EncoderOptions{Template: parse(t, chatML), RawPrompts: true})
	row, err := raw.EncodePair(names[0])
	require.NoError(t, err)
	require.Equal(t, "U«B</s>»", FormatSample(tok, row[1], Marks{"«", "»"}))
}

// Each broken pair has its message.
func TestBrokenPairs(t *testing.T) {
	const user, good = `{"role": "user", "content": "U"}`, `{"role": "assistant", "content": "A"}`
	for line, want := range map[string]string{
		`{"prompt": "U", "completion": "A"}`:                                                                               `the loss compares two answers, but the record has no "chosen"; add it, or name the key that has it`,
		`{"prompt": "U", "chosen": "A"}`:                                                                                   `the loss compares two answers, but the record has no "rejected"; add it, or name the key that has it`,
		`{"prompt": "U", "chosen": "A", "rejected": null}`:                                                                 `the loss compares two answers, but the record has no "rejected"; add it, or name the key that has it`,
		`{"prompt": "U", "chosen": "A", "rejected": "A"}`:                                                                  `"chosen" and "rejected" are equal: there is nothing to prefer; remove the record`,
		`{"prompt": "U", "chosen": "A", "rejected": "A \n"}`:                                                               `"chosen" and "rejected" are equal: there is nothing to prefer; remove the record`,
		`{"prompt": "U", "chosen": [{"role": "assistant", "content": "A "}], "rejected": [` + good + `]}`:                  `"chosen" and "rejected" are equal: there is nothing to prefer; remove the record`,
		`{"chosen": [` + user + `,` + good + `], "rejected": [` + user + `,` + good + `]}`:                                 `"chosen" and "rejected" are equal: there is nothing to prefer; remove the record`,
		`{"prompt": "U", "chosen": "", "rejected": "A"}`:                                                                   `"chosen" is empty; remove the record`,
		`{"prompt": "U", "chosen": "A", "rejected": " \n"}`:                                                                `"rejected" is empty; remove the record`,
		`{"prompt": "U", "chosen": [` + good + `], "rejected": [{"role": "assistant", "content": " "}]}`:                   `the answer of "rejected" is empty; remove the record`,
		`{"prompt": "U", "chosen": "A", "rejected": [` + good + `]}`:                                                       `of "chosen" and "rejected" one is a text, and the other messages; write both as texts, or both as messages`,
		`{"prompt": "U", "chosen": 1, "rejected": 2}`:                                                                      `"chosen" is a number where an answer is expected; write it as a text or as messages`,
		`{"prompt": "U", "chosen": "A", "rejected": false}`:                                                                `"rejected" is a bool where an answer is expected; write it as a text or as messages`,
		`{"prompt": "U", "chosen": [` + good + `, "B"], "rejected": "B"}`:                                                  `chosen[1] is a string where a message is expected; fix the record, or skip broken records`,
		`{"prompt": "U", "chosen": [{"role": "assistant", "content": 7}], "rejected": [` + good + `]}`:                     `chosen[0] has a content that is a number where a string is expected; write it in quotes`,
		`{"prompt": "U", "chosen": [{"role": "assistant", "content": "A", "weight": -1}], "rejected": [` + good + `]}`:     `chosen[0] has the weight -1; it must be a number of 0 or more`,
		`{"prompt": "U", "chosen": [{"role": "assistant", "tool_calls": [{"function": {}}]}], "rejected": [` + good + `]}`: `chosen[0] has the tool call 0 without a name; it is {"function": {"name": "…", "arguments": {…}}}`,
		`{"prompt": "U", "system": 3, "chosen": "A", "rejected": "B"}`:                                                     `"system" is a number where a string is expected; write it in quotes`,
		`{"prompt": "U", "tools": [1], "chosen": "A", "rejected": "B"}`:                                                    `tools[0] is a number where an object is expected; fix the record, or skip broken records`,
		`{"prompt": {"role": "user"}, "chosen": "A", "rejected": "B"}`:                                                     `"prompt" is an object where a string is expected; write it in quotes`,
		`{"chosen": [` + user + `, ` + good + `], "rejected": [` + user + `]}`:                                             `the answers have no "prompt", and no message that both begin with; add it, or name the key that has it`,
		`{"prompt": "", "chosen": "A", "rejected": "B"}`:                                                                   `the answers have no "prompt", and no text that both begin with; add it, or name the key that has it`,
		`{"chosen": " A", "rejected": " B"}`:                                                                               `the answers have no "prompt", and no text that both begin with; add it, or name the key that has it`,
		`{"prompt": 1, "chosen": "A", "rejected": "B"}`:                                                                    `"prompt" is a number where a string is expected; write it in quotes`,
		`{"prompt": [], "chosen": "A", "rejected": "B"}`:                                                                   `"prompt" has no message; remove the record`,
		`{"prompt": "U", "chosen": [], "rejected": [` + good + `]}`:                                                        `"chosen" has no message; remove the record`,
		`{"prompt": "U", "chosen": ["A"], "rejected": ["B"]}`:                                                              `chosen[0] is a string where a message is expected; fix the record, or skip broken records`,
		`{"prompt": "U", "chosen": {"content": "A"}, "rejected": {"content": "B"}}`:                                        `chosen[0] has no "role"; add it, or name the key that has it`,
		`{"chosen": [` + good + `], "rejected": [{"role": "assistant", "content": "B"}]}`:                                  `the answers have no "prompt", and no message that both begin with; add it, or name the key that has it`,
		`{"instruction": "U", "input": 3, "chosen": "A", "rejected": "B"}`:                                                 `"input" is a number where a string is expected; write it in quotes`,
		`{"prompt": [{"role": "system", "content": "S"}, ` + user + `], "system": "T", "chosen": "A", "rejected": "B"}`:    `"system" differs from the system message at the start of the conversation; leave one of them out`,
	} {
		path := write(t, "a.jsonl", line)
		_, err := readAll([]string{path}, ReadOptions{Pairs: true})
		require.EqualError(t, err, path+":1: "+want, line)
	}
	_, err := readAll([]string{write(t, "a.jsonl", `{"prompt": "U", "chosen": "A", "rejected": "B"}`)}, ReadOptions{Pairs: true, Keys: map[string]string{"completion": "chosen"}})
	require.ErrorContains(t, err, `"chosen" and "rejected" are the two answers, but another key has one of the names; leave the other name out`)

	// Faults within a line have a column.
	for line, want := range map[string]string{
		`{"prompt": "U", "chosen": "A", "chosen": "C", "rejected": "B"}`:  `32: key "chosen" is given twice; remove one of them`,
		`{"prompt": "U", "chosen": "A\ud800", "rejected": "B"}`:           `29: \ud800 is half of a surrogate pair, which is not a character; remove it`,
		"{\"prompt\": \"U\", \"chosen\": \"A\xff\", \"rejected\": \"B\"}": `29: byte 0xff is not valid UTF-8; convert the file to UTF-8`,
		`{"prompt": "U", "chosen": "A", "rejected": "B"`:                  `47: it ends where a comma or } is expected; write each object in one line (JSONL), or all of them as one list in a .json file`,
	} {
		path := write(t, "a.jsonl", line)
		_, err := readAll([]string{path}, ReadOptions{Pairs: true})
		require.EqualError(t, err, path+":1:"+want, line)
	}

	// Answers that the tokens do not tell apart.
	e := newEncoder(t, chatTokenizer(t, false), EncoderOptions{Template: parse(t, "{% for m in messages %}{{ m.content | trim }}{% endfor %}")})
	x := example(t, `{"prompt": "U", "completion": "A"}`)
	other := example(t, `{"prompt": "U", "completion": "A "}`)
	x.Rejected, x.File, x.Line = &other, "a.jsonl", 3
	_, err = e.EncodePair(x)
	require.EqualError(t, err, "a.jsonl:3: both sides have the same tokens: there is nothing to prefer; remove the record")
	x.Rejected = nil
	_, err = e.EncodePair(x)
	require.EqualError(t, err, "the example has no rejected answer")
}

// Pairs are rows of two samples, from the cache as well. Long sides are cut alone; a pair of which cutting leaves no
// answer, or two equal ones, is left out, and so are broken ones where they are skipped.
func TestLoadPairs(t *testing.T) {
	pair := func(prompt, chosen, rejected string) string {
		return `{"prompt": "` + prompt + `", "chosen": "` + chosen + `", "rejected": "` + rejected + `"}` + "\n"
	}
	in := inFolder(t, map[string]string{
		"p.jsonl": pair("a", "yes", "no") + pair("a", "good", strings.Repeat("long ", 30)) + pair(strings.Repeat("far ", 40), "too", "long") +
			pair("a", strings.Repeat("same ", 30)+"x", strings.Repeat("same ", 30)+"y") + pair("a", "b", "b") + pair("a", "yes", "no") + pair("b", "1", "2"),
		"t.txt": "text",
	})
	v, cache := withTemplate(t, chatML), t.TempDir()
	o := LoadOptions{Length: 60, Pairs: true, SkipBroken: true, Cache: cache}
	for _, fromCache := range []bool{false, true} {
		l, err := Load(context.Background(), v, []string{in("p.jsonl")}, o)
		require.NoError(t, err)
		defer l.Close()
		require.Equal(t, fromCache, l.Stats.FromCache)
		require.Equal(t, [6]int{6, 8, 3, 2, 1, 1}, [6]int{l.Stats.Examples, l.Stats.Samples, l.Stats.Cut, l.Stats.Empty, l.Broken.Total(), l.Copies})
		d := l.Data
		require.Equal(t, [3]int{4, 8, 120}, [3]int{d.Len(), d.NumSamples(), d.Length})
		require.NoError(t, d.Check(v.NumTokens()))
		for i := range d.Len() {
			row, err := d.Row(i)
			require.NoError(t, err)
			require.Len(t, row, 2)
			require.Equal(t, d.Place(row[0]), d.Place(row[1]))
			for _, s := range row {
				require.LessOrEqual(t, s.Predicted(), 60)
				require.Positive(t, s.Targets())
			}
		}
		rest, held, err := d.Split(0.3)
		require.NoError(t, err)
		require.Equal(t, [2]int{3, 1}, [2]int{rest.Len(), held.Len()})
		chosen, err := rest.Preferred()
		require.NoError(t, err)
		require.Equal(t, [2]int{3, 3}, [2]int{chosen.Len(), chosen.NumSamples()})
		row, err := chosen.Row(0)
		require.NoError(t, err)
		both, err := rest.Row(0)
		require.NoError(t, err)
		require.Equal(t, both[:1], row)
		require.Equal(t, [2]Label{Desirable, Undesirable}, [2]Label{both[0].Label, both[1].Label})
	}
	o.TooLong = DropLong
	l, err := Load(context.Background(), v, []string{in("p.jsonl")}, o)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, [3]int{3, 6, 0}, [3]int{l.Stats.Dropped, l.Stats.Samples, l.Stats.Empty})

	load := func(path string, o LoadOptions) error {
		o.Length, o.Pairs = 60, true
		_, err := Load(context.Background(), v, []string{in(path)}, o)
		return err
	}
	require.EqualError(t, load("p.jsonl", LoadOptions{}), in("p.jsonl")+`:5: "chosen" and "rejected" are equal: there is nothing to prefer; remove the record`)
	require.EqualError(t, load("t.txt", LoadOptions{}), in("t.txt")+": the loss compares pairs of answers, and text has none; give records with chosen and rejected answers")
	require.ErrorContains(t, load("p.jsonl", LoadOptions{TooLong: SplitLong}), "which cannot be compared; cut or drop long pairs")
	o.TooLong, o.Packed = CutLong, true
	l, err = Load(context.Background(), v, []string{in("p.jsonl")}, o)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, 8, l.Data.NumSamples())
	require.Less(t, l.Data.Len(), 4)
	_, _, err = PreparePairs(context.Background(), func(func(int, error) bool) {}, func(int) (Row, error) { return nil, nil }, PrepareOptions{Length: 1, TooLong: SplitLong})
	require.EqualError(t, err, "a pair of answers cannot be split; long ones can be cut or dropped")
}

// A pair with a side of no tokens is omitted, also if the other side is cut.
func TestPairWithoutTokens(t *testing.T) {
	rows := []Row{{{}, {Tokens: []int32{1, 2, 3, 4, 5, 6}}}, {{Tokens: []int32{1, 2}}, {Tokens: []int32{1, 3}}}}
	d, stats, err := PreparePairs(context.Background(), sequenceOf(rows), func(r Row) (Row, error) { return r, nil }, PrepareOptions{Length: 3})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, 1, stats.Empty)
	require.Equal(t, 1, d.Len())
}
