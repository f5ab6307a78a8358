//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

const answerTokens = 48

// An answer is a line of `finetune chat --json`.
type answer struct {
	Content string
	Finish  string `json:"finish_reason"` // stop or length
}

func request(question string) any { return []arguments{{"role": "user", "content": question}} }

// answer asks stock llama.cpp.
func (s *stockServer) answer(t *testing.T, question string) answer {
	var reply struct {
		Choices []struct {
			Message answer
			Finish  string `json:"finish_reason"`
		}
	}
	require.True(t, s.post(t, "/v1/chat/completions", arguments{"messages": request(question), "temperature": 0, "max_tokens": answerTokens}, &reply))
	require.Len(t, reply.Choices, 1)
	return answer{reply.Choices[0].Message.Content, reply.Choices[0].Finish}
}

// A realProgram is the program finetune, with the real model.
type realProgram struct{ path, model string }

func newRealProgram(t *testing.T) *realProgram {
	p := &realProgram{path: filepath.Join(t.TempDir(), "finetune"), model: realModel(t)}
	need.Output(t, exec.Command("go", "build", "-buildvcs=false", "-o", p.path, "../../examples/finetune"))
	return p
}

// run returns what the program writes to stdout.
func (p *realProgram) run(t *testing.T, in []byte, args ...string) string {
	t.Helper()
	c := exec.Command(p.path, args...)
	var messages bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &messages
	out, err := c.Output()
	require.NoError(t, err, "%s\n%s", out, &messages)
	return string(out)
}

// answers chats, each question in a conversation of its own.
func (p *realProgram) answers(t *testing.T, questions []string, args ...string) (list []answer) {
	t.Helper()
	var in bytes.Buffer
	for _, question := range questions {
		require.NoError(t, json.NewEncoder(&in).Encode(arguments{"messages": request(question)}))
	}
	out := p.run(t, in.Bytes(), append([]string{"chat", "--json", "--n-predict", fmt.Sprint(answerTokens)}, args...)...)
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var a answer
		require.NoError(t, json.Unmarshal(lines.Bytes(), &a))
		list = append(list, a)
	}
	require.Len(t, list, len(questions))
	return list
}
