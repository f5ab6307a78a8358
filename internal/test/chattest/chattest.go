// Package chattest provides test data for rendering conversations: conversations, published chat templates, and their
// renderings by transformers.
package chattest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// Paths from packages two folders deep.
const (
	fetch         = "../../scripts/chattemplates"
	script        = "../../internal/test/chattest/testdata/reference.py"
	conversations = "../../internal/test/chattest/testdata/conversations.json"
)

// Conversation is a named conversation in JSON.
type Conversation struct {
	Name   string
	Source map[string]json.RawMessage `json:"-"`
	chat.Conversation
}

// Conversations returns conversations that templates render differently: with tools, reasoning, contents in parts, odd
// orders of roles. Words of users, systems and tools begin with U, S, T, D or C and a digit, the assistant's with A or
// R.
func Conversations(t testing.TB) []Conversation {
	t.Helper()
	text := need.Value(os.ReadFile(conversations))(t)
	var all []Conversation
	var sources []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &all))
	require.NoError(t, json.Unmarshal(text, &sources))
	for i := range all {
		all[i].Source = sources[i]
	}
	return all
}

// folder returns the folder of transformers and the templates.
func folder(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(fetch).Output()
	require.NoError(t, err, fetch)
	return strings.TrimSpace(string(out))
}

// Templates returns the files of the published templates, or those in subfolders of GOGGML_CHAT_TEMPLATES/templates.
func Templates(t testing.TB) []string {
	t.Helper()
	root := folder(t)
	if more := os.Getenv("GOGGML_CHAT_TEMPLATES"); more != "" { // a folder of the caller's
		root = more
	}
	paths := need.Value(filepath.Glob(filepath.Join(root, "templates", "*", "*.jinja")))(t)
	require.NotEmpty(t, paths)
	return paths
}

// Published returns the source of a published template, such as axolotl/qwen3.
func Published(t testing.TB, name string) string {
	t.Helper()
	source := need.Value(os.ReadFile(filepath.Join(folder(t), "templates", filepath.FromSlash(name)+".jinja")))(t)
	return string(source)
}

// Rendering is the rendering of a conversation by transformers.
type Rendering struct {
	Template     string // file
	Conversation int    // index in Conversations
	Setting      int    // 0: none; 1: AddGenerationPrompt; 2: also enable_thinking=false; 3: ContinueFinalMessage
	Text         string
	Error        string
	Generated    [][2]int // byte ranges of generation tags; absent in setting 3
}

// Variables are the variables that Render passes to templates.
var Variables = map[string]any{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

// Render renders all conversations with transformers, in each setting.
func Render(t testing.TB, templates []string) []Rendering {
	t.Helper()
	var all []Rendering
	lines := bufio.NewScanner(bytes.NewReader(python(t, append([]string{"templates", conversations}, templates...)...)))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r Rendering
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		r.Generated = inBytes(r.Text, r.Generated)
		all = append(all, r)
	}
	require.NoError(t, lines.Err())
	return all
}

// RenderAgain renders the templates in a file of language samples, and returns the file with current renderings.
func RenderAgain(t testing.TB, path string) []byte {
	t.Helper()
	return python(t, "language", path)
}

func python(t testing.TB, args ...string) []byte {
	t.Helper()
	command := exec.Command(filepath.Join(folder(t), "venv", "bin", "python"), append([]string{script}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	return out
}

// inBytes converts spans of code points to bytes, and drops empty ones.
func inBytes(text string, spans [][2]int) [][2]int {
	var offsets []int
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
