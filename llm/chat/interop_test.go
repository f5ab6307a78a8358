//go:build interop

package chat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
)

// reference is one line of testdata/reference.py.
type reference struct {
	Template     string
	Conversation int
	Setting      int
	Text         string
	Error        string
	Generated    [][2]int
}

// variables and settings are those of testdata/reference.py.
var variables = map[string]any{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

func options(setting int) *chat.Options {
	o := &chat.Options{Variables: map[string]any{}, Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	for name, v := range variables {
		o.Variables[name] = v
	}
	switch setting {
	case 1:
		o.AddGenerationPrompt = true
	case 2:
		o.AddGenerationPrompt = true
		o.Variables["enable_thinking"] = false
	case 3:
		o.ContinueFinalMessage = true
	}
	return o
}

var otherWords = regexp.MustCompile(`\b[USTDC][0-9] `)

type namedConversation struct {
	Name string
	chat.Conversation
}

func conversations(t *testing.T) []namedConversation {
	data, err := os.ReadFile("testdata/conversations.json")
	require.NoError(t, err)
	var all []namedConversation
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// folder is where scripts/chattemplates has put transformers and the templates.
func folder(t *testing.T) string {
	out, err := exec.Command("../../scripts/chattemplates").Output()
	require.NoError(t, err, "scripts/chattemplates")
	return strings.TrimSpace(string(out))
}

// references renders all templates by transformers.
func references(t *testing.T) []reference {
	root := folder(t)
	templates, err := filepath.Glob(filepath.Join(root, "templates", "*", "*.jinja"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(templates), 40)
	python := exec.Command(filepath.Join(root, "venv", "bin", "python"), append([]string{"testdata/reference.py", "templates", "testdata/conversations.json"}, templates...)...)
	var stderr bytes.Buffer
	python.Stderr = &stderr
	out, err := python.Output()
	require.NoError(t, err, stderr.String())
	var all []reference
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r reference
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		all = append(all, r)
	}
	return all
}

// bytesOf turns spans of code points into spans of bytes.
func bytesOf(text string, spans [][2]int) [][2]int {
	offsets := []int{}
	for i := range text {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(text))
	var out [][2]int
	for _, s := range spans {
		if s[0] < s[1] {
			out = append(out, [2]int{offsets[s[0]], offsets[s[1]]})
		}
	}
	return out
}

// marks says of each byte whether it is trained.
func marks(n int, spans [][2]int) []bool {
	m := make([]bool, n)
	for _, s := range spans {
		for i := s[0]; i < s[1]; i++ {
			m[i] = true
		}
	}
	return m
}

func trained(r *chat.Rendered, mode chat.Mode) [][2]int {
	var out [][2]int
	for _, x := range r.Trained(mode) {
		out = append(out, [2]int{x.From, x.To})
	}
	return out
}

// TestInteropLanguage checks what TestLanguage expects.
func TestInteropLanguage(t *testing.T) {
	python := filepath.Join(folder(t), "venv", "bin", "python")
	out, err := exec.Command(python, "testdata/reference.py", "language", "testdata/language.json").Output()
	require.NoError(t, err)
	var want []sample
	require.NoError(t, json.Unmarshal(out, &want))
	require.Equal(t, want, samples(t))
}

// TestInteropTemplates compares texts, errors and the masks of generation tags with transformers', for real templates.
func TestInteropTemplates(t *testing.T) {
	all := conversations(t)
	parsed := map[string]*chat.Template{}
	equal, errors, masks, tags := 0, 0, 0, map[string]bool{}
	for _, want := range references(t) {
		name := filepath.Base(filepath.Dir(want.Template)) + "/" + filepath.Base(want.Template)
		template := parsed[name]
		if template == nil {
			source, err := os.ReadFile(want.Template)
			require.NoError(t, err)
			template, err = chat.Parse(name, string(source))
			require.NoError(t, err)
			parsed[name] = template
		}
		c := all[want.Conversation]
		where := name + ", " + c.Name + ", setting " + string(rune('0'+want.Setting))
		got, err := template.Render(&c.Conversation, options(want.Setting))
		if want.Error != "" {
			errors++
			assert.Error(t, err, "%s: transformers has the error %s", where, want.Error)
			continue
		}
		if !assert.NoError(t, err, where) || !assert.Equal(t, want.Text, got.Text, where) {
			continue
		}
		equal++
		if template.HasGenerationTag() && want.Setting != 3 {
			tags[name] = true
			masks++
			assert.Equal(t, marks(len(got.Text), bytesOf(want.Text, want.Generated)), marks(len(got.Text), trained(got, chat.Assistant)), "%s: mask", where)
		}
		notTrained(t, where, got, &c.Conversation)
	}
	t.Logf("%d templates: %d texts and %d errors equal, %d masks of %d templates with generation tags", len(parsed), equal, errors, masks, len(tags))
}

// notTrained checks that no byte of anybody but the assistant is trained, by the text itself: the words of the test's
// users, systems and tools begin with U, S, T, D or C and a digit, those of the assistant with A or R.
func notTrained(t *testing.T, where string, r *chat.Rendered, c *chat.Conversation) {
	for _, x := range r.Trained(chat.Assistant) {
		for _, span := range r.Spans {
			if span.From >= x.To || span.To <= x.From || span.Message < 0 {
				continue
			}
			role := c.Messages[span.Message].Role()
			if span.Part == chat.Content {
				assert.Equal(t, "assistant", role, "%s: %q is trained", where, r.Text[span.From:span.To])
			}
		}
		words := otherWords.FindString(r.Text[x.From:x.To])
		assert.Empty(t, words, "%s: %q is trained", where, r.Text[x.From:x.To])
	}
}
