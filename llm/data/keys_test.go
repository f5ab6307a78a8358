package data

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// readText reads the examples of a file with the given text, up to an error.
func readText(t *testing.T, name, text string, o ReadOptions) (list []Example, path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for x, err := range Read(context.Background(), []string{path}, o) {
		if err != nil {
			return list, path, err
		}
		list = append(list, x)
	}
	return list, path, nil
}

// Common synonyms of keys are recognised; names set by the caller take precedence.
func TestSynonyms(t *testing.T) {
	for text, want := range map[string][3]string{
		`{"question": "a", "answer": "b"}`:                                                   {"prompt", "a", "b"},
		`{"query": "a", "response": "b", "type": "x"}`:                                       {"prompt", "a", "b"},
		`{"input": "a", "output": "b"}`:                                                      {"prompt", "a", "b"},
		`{"prompt": "a", "response": "b"}`:                                                   {"prompt", "a", "b"},
		`{"prompt": "a", "answer": "b", "question": "c"}`:                                    {"prompt", "a", "b"},
		`{"prompt": "a", "completion": "b", "answer": "c", "question": "d"}`:                 {"prompt", "a", "b"},
		`{"instruction": "a", "response": "b", "context": ""}`:                               {"instruction", "", "b"},
		`{"instruction": "a", "output": "b", "response": "c"}`:                               {"instruction", "", "b"},
		`{"conversation": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}`: {"conversations", "", ""},
	} {
		list, _, err := readText(t, "x.jsonl", text, ReadOptions{})
		require.NoError(t, err, text)
		x := list[0]
		if x.Format == Instructions {
			x.Prompt = ""
		}
		require.Equal(t, want, [3]string{string(x.Format), x.Prompt, x.Completion}, text)
	}
	dolly, _, err := readText(t, "x.jsonl", `{"instruction": "a", "context": "c", "response": "b", "category": "x"}`, ReadOptions{})
	require.NoError(t, err)
	require.Equal(t, "a\n\nc", dolly[0].Messages[0].Content())
	said, _, err := readText(t, "x.jsonl", `{"question": "a", "answer": "b", "response": "c"}`, ReadOptions{Keys: map[string]string{"completion": "response"}})
	require.NoError(t, err)
	require.Equal(t, "c", said[0].Completion)
}

// Faults of keys name the option that fixes them.
func TestFaultsOfKeys(t *testing.T) {
	for text, want := range map[string]struct {
		message string
		option  Option
	}{
		`{"question": "a", "answer": "b", "response": "c"}`: {`"answer" and "response" can both be the completion; name one of them`, Option{"Keys", "completion", "answer"}},
		`{"prompt": "a", "reply": "b"}`:                     {`the record has "prompt", but "completion" is missing; add it, or name the key that has it`, Option{"Keys", "completion", "reply"}},
		`{"prompt": "a", "x": "b", "y": "c"}`:               {`the record has "prompt", but "completion" is missing; add it, or name the key that has it`, Option{"Keys", "completion", ""}},
		`{"a": 1}`:                                          {`the record has none of the keys messages, conversations, prompt, instruction, text; it has "a"; name the key to use instead`, Option{"Keys", "", ""}},
		`{"prompt": "a", "chosen": "b", "rejected": "c"}`:   {`the record has two answers, "chosen" and "rejected", and cross-entropy imitates one; choose a loss that compares answers, or name the key to imitate`, Option{"Keys", "completion", "chosen"}},
		`{"prompt": "a", "chosen": [{"role": "user", "content": "x"}], "rejected": []}`: {`the record has two answers, "chosen" and "rejected", and cross-entropy imitates one; choose a loss that compares answers, or name the key to imitate`, Option{"Keys", "messages", "chosen"}},
		`{"messages": [{"speaker": "user", "content": "x"}]}`:                           {`messages[0] has no "role"; add it, or name the key that has it`, Option{"Keys", "role", "speaker"}},
		`{"messages": [{"role": "user", "text": "x"}]}`:                                 {`messages[0] has no "content"; add it, or name the key that has it`, Option{"Keys", "content", "text"}},
	} {
		_, path, err := readText(t, "x.jsonl", text, ReadOptions{})
		require.EqualError(t, err, path+":1: "+want.message, text)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, want.option, e.Option, text)
	}
	_, path, err := readText(t, "x.jsonl", `{"messages": [{"role": "agent", "content": "x"}]}`, ReadOptions{})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Option{"Roles", "agent", "assistant"}, e.Option, path)
	_, _, err = readText(t, "x.jsonl", `{"text": 3`, ReadOptions{})
	require.ErrorAs(t, err, &e)
	chosen, _, err := readText(t, "x.jsonl", `{"prompt": "a", "chosen": "b", "rejected": "c"}`, ReadOptions{Keys: map[string]string{"completion": "chosen"}})
	require.NoError(t, err)
	require.Equal(t, "b", chosen[0].Completion)
}

// Tables may have quoted line ends, a byte order mark and row numbers.
func TestTables(t *testing.T) {
	list, path, err := readText(t, "x.csv", "\ufeff,question,answer\r\n0,\"a, \"\"b\"\"\r\nc\",d\r\n\r\n1,e \"f\" gü,\r\n", ReadOptions{})
	require.ErrorContains(t, err, path+`:5:5: bare " in non-quoted-field; `+quoteFields)
	require.Len(t, list, 1)
	require.Equal(t, "a, \"b\"\nc", list[0].Prompt)
	require.Equal(t, 2, list[0].Line)

	list, _, err = readText(t, "x.tsv", "instruction\tinput\toutput\na\t\tb\nc\td\te", ReadOptions{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "c\n\nd", list[1].Messages[0].Content())
	require.Equal(t, 3, list[1].Line)

	for text, want := range map[string]string{
		"text\n\"a":        `:2:3: extraneous or missing " in quoted-field; ` + quoteFields,
		"text,x\na":        ":2: the row has 1 field, the first one 2; " + quoteFields,
		"text,text\na,b":   `:1: the first row, which names the keys, has "text" twice; give each column a name of its own`,
		"text\n\xff":       `:2: "text" is not valid UTF-8; convert the file to UTF-8`,
		"a,b\nc,d":         `:2: the record has none of the keys messages, conversations, prompt, instruction, text; it has "a", "b"; name the key to use instead`,
		"text\na\nb\n\"\"": `:4: "text" is empty; remove the record`,
		"messages\n[]":     `:2: "messages" is a string where a list of messages is expected; fix the record, or skip broken records`,
	} {
		_, path, err := readText(t, "x.csv", text, ReadOptions{})
		require.EqualError(t, err, path+want, text)
	}
	broken := &Broken{}
	list, _, err = readText(t, "x.csv", "text\na\nb\"c\nd,e\nf", ReadOptions{SkipBroken: broken})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 2, broken.Total())
	_, path, err = readText(t, "x.csv", "text\n\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ReadOptions{MaxRecordBytes: 16})
	require.EqualError(t, err, path+": the record has more than 0 MB; a quote that is not closed makes the rest of the file one field; "+quoteFields)
	_, path, err = readText(t, "x.csv", "text\n", ReadOptions{})
	require.EqualError(t, err, path+": there is no example")
}
