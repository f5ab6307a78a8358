package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// chatML is a template that requires alternating user and assistant turns.
const chatML = `{% for m in messages %}{% if m.role == 'assistant' and (loop.first or messages[loop.index0 - 1].role == 'assistant') %}` +
	`{{ raise_exception('Roles must alternate') }}{% endif %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// chatTokenizer has a token for each byte, the tokens of ChatML, <s> and </s>.
func chatTokenizer(t require.TestingT, addBOS bool) *tokenizer.Tokenizer {
	c, err := tokenizer.TrainBPE(func(yield func(string) bool) { yield("text") }, tokenizer.TrainOptions{
		VocabSize: 260, Special: []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>"}, BOS: "<s>", EOS: "</s>", AddBOS: addBOS})
	require.NoError(t, err)
	tok, err := tokenizer.New(c)
	require.NoError(t, err)
	return tok
}

// prepare reads and encodes all examples.
func prepare(t require.TestingT, sources []string, o ReadOptions, e EncoderOptions) ([]Sample, error) {
	e.SkipBroken = o.SkipBroken
	encoder := newEncoder(t, chatTokenizer(t, true), e)
	var samples []Sample
	for x, err := range Read(t.(*testing.T).Context(), sources, o) {
		if err != nil {
			return samples, err
		}
		s, err := encoder.Encode(x)
		if err != nil {
			return samples, err
		}
		if len(s.Tokens) > 0 {
			samples = append(samples, s)
		}
	}
	return samples, nil
}

const question = `{"role": "user", "content": "U"}`

func inMessages(messages string) string { return `{"messages": [` + question + `, ` + messages + `]}` }

// brokenRecords are broken second lines of an otherwise valid file, with their errors.
var brokenRecords = []struct {
	kind Kind
	line string
	want string // after the name of the file
}{
	{BadJSON, `{"text" "x"}`, `2:9: a colon is expected, not '"'; fix the record, or skip broken records`},
	{BadJSON, `{'text': 'x'}`, `2:2: a key in quotes is expected, not '\''; fix the record, or skip broken records`},
	{BadJSON, `{"größe": NaN}`, `2:11: a value is expected, not 'N'; fix the record, or skip broken records`},
	{BadJSON, `{"a": [1, 2,]}`, `2:13: a value is expected, not ']'; fix the record, or skip broken records`},
	{BadJSON, `{"a": 01}`, `2:8: a comma or } is expected, not '1'; fix the record, or skip broken records`},
	{BadJSON, `{"a": "x\y"}`, `2:9: \y is not an escape; write a backslash as \\`},
	{BadJSON, `{"a": "\u12x4"}`, `2:8: \u is followed by four hexadecimal digits, not "12x4"; fix the record, or skip broken records`},
	{BadJSON, "{\"a\": \"x\ty\"}", `2:9: a control character '\t' in a string; write line ends as \n and tabs as \t`},
	{BadJSON, `{"text": "x"} {"text": "y"}`, `2:15: more follows after the value; fix the record, or skip broken records`},
	{BadJSON, `["x"]`, `2:1: an object {…} is expected, not '['; fix the record, or skip broken records`},
	{BadJSON, strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), `2:1001: it is nested more than 200 deep; fix the record, or skip broken records`},
	{Truncated, `{"messages": [{"role": "us`, `2:27: it ends where the " at the end of a string is expected; the file was cut off, or has a line end within an object: write each object in one line`},
	{Truncated, `{"a": tru`, `2:10: it ends where the rest of true is expected; the file was cut off, or has a line end within an object: write each object in one line`},
	{BadEncoding, "{\"text\": \"x\xffy\"}", "2:12: byte 0xff is not valid UTF-8; convert the file to UTF-8"},
	{BadEncoding, "{\"text\": \"x\x00y\"}", "2:12: a NUL byte; the file is damaged, or UTF-16: convert it to UTF-8"},
	{BadEncoding, "\x00\x00", "2:1: a NUL byte; the file is damaged, or UTF-16: convert it to UTF-8"},
	{BadEncoding, `{"text": "\ud83d"}`, `2:11: \ud83d is half of a surrogate pair, which is not a character; remove it`},
	{BadEncoding, `{"text": "\ude00\ud83d"}`, `2:11: \ude00 is half of a surrogate pair, which is not a character; remove it`},
	{DuplicateKey, `{"text": "x", "te\u0078t": "y"}`, `2:15: key "te\u0078t" is given twice; remove one of them`},
	{DuplicateKey, inMessages(`{"role": "user", "role": "assistant", "content": ""}`), `2:66: key "role" is given twice; remove one of them`},
	{TooLong, `{"messages": "` + strings.Repeat("x", 1<<20) + `"}`, "2: the record has more than 1 MB; split it into shorter ones"},
	{MissingKey, `{"puzzle": "x", "reply": "y"}`, `2: the record has none of the keys messages, conversations, prompt, instruction, text; it has "puzzle", "reply"; name the key to use instead`},
	{MissingKey, `{"prompt": "x", "chosen": "y"}`, `2: the record has "prompt", but "completion" is missing; add it, or name the key that has it`},
	{MissingKey, inMessages(`{"content": "A"}`), `2: messages[1] has no "role"; add it, or name the key that has it`},
	{MissingKey, inMessages(`{"role": "assistant", "content": null}`), `2: messages[1] has no "content"; add it, or name the key that has it`},
	{Empty, `{}`, `2: the record has no keys; remove the record`},
	{Empty, `{"messages": []}`, `2: "messages" has no message; remove the record`},
	{MixedFormats, `{"text": "x"}`, `2: this record has "text", but the record in line 1 has "messages": their formats differ; put each format into its own file`},
	{WrongType, `{"messages": "x"}`, `2: "messages" is a string where a list of messages is expected; fix the record, or skip broken records`},
	{WrongType, inMessages(`"A"`), `2: messages[1] is a string where a message is expected; fix the record, or skip broken records`},
	{WrongType, inMessages(`{"role": 1, "content": "A"}`), `2: messages[1] has a role that is a number where a string is expected; write it in quotes`},
	{WrongType, inMessages(`{"role": "assistant", "content": 5}`), `2: messages[1] has a content that is a number where a string is expected; write it in quotes`},
	{WrongType, inMessages(`{"role": "assistant", "content": ["A"]}`), `2: messages[1] has the part 0 of its content as a string; a part is {"type": "text", "text": "…"}`},
	{WrongType, inMessages(`{"role": "user", "content": [{"type": "image", "url": "x"}]}`), `2: messages[1] has the part 0 of its content with the type "image"; only text can be trained: a part is {"type": "text", "text": "…"}`},
	{WrongType, `{"messages": [` + question + `], "tools": {"a": 1}}`, `2: "tools" is an object where a list of objects is expected; fix the record, or skip broken records`},
	{WrongType, `{"messages": [` + question + `], "tools": [1]}`, `2: tools[0] is a number where an object is expected; fix the record, or skip broken records`},
	{BadJSON, `{"messages": [` + question + `], "tools": "[x"}`, `2: "tools": a value is expected, not 'x'; fix the record, or skip broken records`},
	{WrongRole, inMessages(`{"role": "asistant", "content": "A"}`), `2: messages[1] has the role "asistant"; known roles are assistant, bard, bing, bot, chatgpt, developer, function, function_call, ` +
		`function_response, gpt, human, ipython, model, observation, prompter, system, tool, tool_call, tool_response, user; say which of them this name means`},
	{BadToolCall, inMessages(`{"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}`), `2: messages[1] has the tool call 0 without a name; it is {"function": {"name": "…", "arguments": {…}}}`},
	{BadToolCall, inMessages(`{"role": "assistant", "tool_calls": {"name": "f"}}`), `2: messages[1] has tool_calls as an object where a list is expected; fix the record, or skip broken records`},
	{BadToolCall, inMessages(`{"role": "assistant", "tool_calls": ["f()"]}`), `2: messages[1] has the tool call 0 as a string; it is {"function": {"name": "…", "arguments": {…}}}`},
	{BadToolCall, inMessages(`{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{x: 1}"}]}`),
		`2: messages[1] has the tool call 0 with arguments that are not JSON: a key in quotes is expected, not 'x'; it is {"function": {"name": "…", "arguments": {…}}}`},
	{BadToolCall, inMessages(`{"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}`), `2: messages[1] has the tool call 0 with arguments that are a list; it is {"function": {"name": "…", "arguments": {…}}}`},
	{BadToolCall, inMessages(`{"role": "function_call", "content": "f(1)"}`), `2: messages[1] has a tool call that is not JSON: a value is expected, not 'f'; it is {"name": "…", "arguments": {…}}`},
	{BadWeight, inMessages(`{"role": "assistant", "content": "A", "weight": -0.5}`), `2: messages[1] has the weight -0.5; it must be a number of 0 or more`},
	{BadWeight, inMessages(`{"role": "assistant", "content": "A", "weight": "1"}`), `2: messages[1] has the weight "1"; it must be a number of 0 or more`},
	{BadWeight, inMessages(`{"role": "assistant", "content": "A", "train": 1}`), `2: messages[1] has 1 for train; it must be true or false`},
	{Contradiction, `{"system": "S", "messages": [{"role": "system", "content": "T"}, ` + question + `]}`, `2: "system" differs from the system message at the start of the conversation; leave one of them out`},
	{Unrendered, inMessages(`{"role": "assistant", "content": "A", "reasoning_content": "R"}`), `2: the chat template has no place for the reasoning of the assistant (messages[1].reasoning_content): none of it is in the text; ` +
		`remove it from the record, or give a template that writes it`},
	{TemplateFailed, inMessages(`{"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}`), `2: model.gguf:1: Roles must alternate; fix the record, or skip broken records`},
	{NothingTrained, `{"messages": [` + question + `]}`, `2: no token is trained: the conversation has no assistant message; remove the record, or train on more of it`},
	{NothingTrained, inMessages(`{"role": "assistant", "content": "A", "train": false}`), `2: no token is trained: all assistant messages have weight 0; remove the record, or train on more of it`},
}

// A broken record is an error with its place, or is counted.
func TestBrokenRecords(t *testing.T) {
	template, err := chat.Parse("model.gguf", chatML)
	require.NoError(t, err)
	e := EncoderOptions{Template: template}
	lines := []string{greeting}
	kinds := map[Kind]int{}
	for _, c := range brokenRecords {
		lines = append(lines, c.line)
		kinds[c.kind]++
		path := write(t, "a.jsonl", greeting+"\n"+c.line+"\n"+greeting)
		samples, err := prepare(t, []string{path}, ReadOptions{MaxRecordBytes: 1 << 20}, e)
		require.EqualError(t, err, path+":"+c.want)
		require.Len(t, samples, 1)
		var at *Error
		require.ErrorAs(t, err, &at)
		require.Equal(t, c.kind, at.Kind, c.want)

		broken := &Broken{}
		samples, err = prepare(t, []string{path}, ReadOptions{MaxRecordBytes: 1 << 20, SkipBroken: broken}, e)
		require.NoError(t, err)
		require.Len(t, samples, 2)
		require.Equal(t, []BrokenCount{{c.kind, 1, at}}, broken.Counts())
	}
	path := write(t, "all.jsonl", strings.Join(append(lines, greeting), "\n"))
	broken := &Broken{}
	samples, err := prepare(t, []string{path}, ReadOptions{MaxRecordBytes: 1 << 20, SkipBroken: broken}, e)
	require.NoError(t, err)
	require.Len(t, samples, 2)
	require.Equal(t, len(brokenRecords), broken.Total())
	for _, c := range broken.Counts() {
		require.Equal(t, kinds[c.Kind], c.N, c.Kind)
	}
	report := strings.Split(broken.String(), "\n")
	require.Equal(t, fmt.Sprintf("%d broken records are skipped:", len(brokenRecords)), report[0])
	require.Len(t, report, 1+len(kinds))
	require.Contains(t, report[1], fmt.Sprintf("%6d with bad JSON, first %s:2:9: a colon", kinds[BadJSON], path))
}

// Faults of a whole file cannot be skipped.
func TestBrokenFiles(t *testing.T) {
	folder := t.TempDir()
	good := gzipped(t, strings.Repeat(greeting+"\n", 1000))
	for _, c := range []struct{ name, content, want string }{
		{"empty.jsonl", "", "empty.jsonl: there is no example"},
		{"blank.jsonl", "\n \r\n", "blank.jsonl: there is no example"},
		{"mark.jsonl", "\ufeff", "mark.jsonl: there is no example"},
		{"empty.txt", " \n", "empty.txt: there is no example"},
		{"empty.json", "[ ]", "empty.json: there is no example"},
		{"utf16.jsonl", "\xff\xfe{\x00", "utf16.jsonl: the file is UTF-16; convert it to UTF-8"},
		{"cut.jsonl.gz", good[:len(good)/2], "cut.jsonl.gz:501: the gzip file is damaged: unexpected EOF; fetch or compress it again"},
		{"bad.jsonl.gz", good[:10] + "\x07", "bad.jsonl.gz: the gzip file is damaged: flate: corrupt input before offset 1; fetch or compress it again"},
		{"sum.jsonl.gz", good[:len(good)-8] + "12345678", "sum.jsonl.gz:1001: the gzip file is damaged: gzip: invalid checksum; fetch or compress it again"},
		{"head.jsonl.gz", "\x1f\x8b\x00\x00\x00\x00\x00\x00\x00\x00", "head.jsonl.gz: the gzip file is damaged: gzip: invalid header; fetch or compress it again"},
		{"a.xlsx", "text\nx\n", "a.xlsx: Excel files cannot be read; convert it to JSONL: one object in each line, with the keys messages, prompt and completion, or text"},
		{"a.parquet", "PAR1", "a.parquet: this program has no reader for Parquet; convert the file to JSONL"},
		{"cut.json", "[" + greeting + ",\n", "cut.json:2: the file ends before the ] of its list; it was cut off: fetch or write it again"},
		{"quote.json", "[" + greeting + ",\n{\"text\": \"x},\n" + greeting + "]", `quote.json:2:14: a control character '\n' in a string; write line ends as \n and tabs as \t`},
		{"comma.json", "[" + greeting + "\n" + greeting + "]", "comma.json:2: expected a comma or the ] of the list; the file must be one list [{…}, {…}], or have an object in each line"},
		{"more.json", "[" + greeting + "]\n]", "more.json:2: expected a comma or the ] of the list; the file must be one list [{…}, {…}], or have an object in each line"},
		{"items.json", "[1, 2]", "items.json:1:1: an object {…} is expected, not '1'; fix the record, or skip broken records"},
		{"pretty.jsonl", "{\n\"text\": \"x\"\n}", "pretty.jsonl:1:2: it ends where a key in quotes is expected; write each object in one line (JSONL), or all of them as one list in a .json file"},
		{"text.jsonl", "Once upon", "text.jsonl:1:1: an object {…} is expected, not 'O'; each line must be one JSON object; give plain text the extension .txt"},
		{"many.json", "[" + greeting + ", {\"text\": \"" + strings.Repeat("x", 1<<20) + "\"}]", "many.json:1: the record has more than 1 MB; split it into shorter ones"},
		{"long.txt", strings.Repeat("x", 1<<20+1), "long.txt:1: the record has more than 1 MB; split it into shorter ones"},
	} {
		path := filepath.Join(folder, c.name)
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		_, err := readAll([]string{path}, ReadOptions{MaxRecordBytes: 1 << 20})
		require.EqualError(t, err, filepath.Join(folder, c.want), c.name)
	}
	for _, c := range []struct{ source, want string }{
		{filepath.Join(folder, "none.jsonl"), filepath.Join(folder, "none.jsonl") + ": no such file or directory"},
		{filepath.Join(folder, "*.none"), filepath.Join(folder, "*.none") + ": no file matches the pattern; quote it, so that the shell leaves it alone, and check the folder"},
		{filepath.Join(folder, "[.none"), filepath.Join(folder, "[.none") + ": invalid pattern: syntax error in pattern"},
		{folder, folder + ": the folder has no train file: it has a.parquet, a.xlsx, bad.jsonl.gz, blank.jsonl, comma.json; name the file train.jsonl or train.parquet, or give the file instead of the folder"},
	} {
		_, err := readAll([]string{c.source}, ReadOptions{SkipBroken: &Broken{}})
		require.EqualError(t, err, c.want)
	}
	_, err := readAll(nil, ReadOptions{})
	require.EqualError(t, err, "no source of data is given")

	// A file that opens but cannot be read.
	_, err = readAll([]string{Stdin}, ReadOptions{Stdin: failing{}})
	require.EqualError(t, err, "stdin: permission denied")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, &os.PathError{Op: "read", Err: os.ErrPermission} }

func TestAllBroken(t *testing.T) {
	path := write(t, "a.jsonl", "x\n{}\n{")
	_, err := readAll([]string{path}, ReadOptions{SkipBroken: &Broken{}})
	require.EqualError(t, err, path+": there is no example: all 3 records are broken, the first: "+path+":1:1: an object {…} is expected, not 'x'; each line must be one JSON object; give plain text the extension .txt")
}

func TestBrokenOptions(t *testing.T) {
	path := write(t, "a.jsonl", greeting)
	for _, c := range []struct {
		keys map[string]string
		want string
	}{
		{map[string]string{"dialog": "messages"}, `there is no key "dialog", so it cannot be renamed to "messages"; the keys are messages, conversations, prompt, completion, instruction, output, text, chosen, rejected, label, teacher, input, system, tools, documents, reasoning_content, role, content, from, value`},
		{map[string]string{"prompt": "q", "completion": "q"}, `the name "q" is given to both completion and prompt; give each key its own name`},
		{map[string]string{"messages": "dialog"}, path + `:1: the record has none of the keys dialog, conversations, prompt, instruction, text; it has "messages"; name the key to use instead`},
	} {
		_, err := readAll([]string{path}, ReadOptions{Keys: c.keys})
		require.EqualError(t, err, c.want)
	}
	_, err := NewEncoder(nil, EncoderOptions{})
	require.EqualError(t, err, "the model has no vocabulary, so text cannot be turned into tokens")
	_, err = ModelTemplate("model.gguf", chatTokenizer(t, false))
	require.EqualError(t, err, "model.gguf: the model has no chat template (tokenizer.chat_template); give one in a file")
	_, err = prepare(t, []string{path}, ReadOptions{}, EncoderOptions{})
	require.EqualError(t, err, path+":1: a conversation needs a chat template, and the model has none (tokenizer.chat_template); train on texts or completions, or give a template in a file")
}
