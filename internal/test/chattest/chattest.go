// Package chattest has test data for the rendering of conversations: conversations, published chat templates, and
// transformers' renderings.
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

	"github.com/goggml/ggml/llm/chat"
)

// The files of this tree, for tests of packages two folders deep.
const (
	fetch         = "../../scripts/chattemplates"
	script        = "../../internal/test/chattest/testdata/reference.py"
	conversations = "../../internal/test/chattest/testdata/conversations.json"
)

// Conversation is one with a name, and as JSON.
type Conversation struct {
	Name   string
	Source map[string]json.RawMessage `json:"-"`
	chat.Conversation
}

// Conversations have what templates differ in: tools, reasoning, contents in parts, odd orders of roles. The words of
// users, systems and tools begin with U, S, T, D or C and a digit, the assistant's with A or R.
func Conversations(t testing.TB) []Conversation {
	t.Helper()
	text, err := os.ReadFile(conversations)
	require.NoError(t, err)
	var all []Conversation
	var sources []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &all))
	require.NoError(t, json.Unmarshal(text, &sources))
	for i := range all {
		all[i].Source = sources[i]
	}
	return all
}

// folder is where transformers and the templates are.
func folder(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(fetch).Output()
	require.NoError(t, err, fetch)
	return strings.TrimSpace(string(out))
}

// Templates are the files of the published templates, or of those in subfolders of GOGGML_CHAT_TEMPLATES/templates.
func Templates(t testing.TB) []string {
	t.Helper()
	root := folder(t)
	if more := os.Getenv("GOGGML_CHAT_TEMPLATES"); more != "" { // of a folder of one's own
		root = more
	}
	paths, err := filepath.Glob(filepath.Join(root, "templates", "*", "*.jinja"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

// Published is the source of a published template, such as axolotl/qwen3.
func Published(t testing.TB, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder(t), "templates", filepath.FromSlash(name)+".jinja"))
	require.NoError(t, err)
	return string(source)
}

// Rendering is transformers' rendering of a conversation.
type Rendering struct {
	Template     string // its file
	Conversation int    // of Conversations
	Setting      int    // 0: none; 1: AddGenerationPrompt; 2: that, and enable_thinking is false; 3: ContinueFinalMessage
	Text         string
	Error        string
	Generated    [][2]int // bytes of generation tags; none with setting 3
}

// Variables are the variables that Render passes to templates.
var Variables = map[string]any{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

// Render renders all conversations by transformers, in each setting.
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

// RenderAgain renders the templates of a file of samples of the language, and gives the file as it should be.
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

// inBytes gives spans of code points in bytes, without empty ones.
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
