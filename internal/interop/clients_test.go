//go:build interop

package interop

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/serve"
)

// Clients of other languages use the server as OpenAI's: scripts/clients installs them. What they leave behind ends.
func TestInteropClients(t *testing.T) {
	installed, err := filepath.Abs("../../build/clients")
	require.NoError(t, err)
	m := need.Value(llm.Open(chatModel(t, chattest.CallTemplates["Hermes"], true), llm.Options{Session: infer.SessionOptions{Context: 512, Threads: 1}}))(t)
	defer m.Close()
	server := httptest.NewServer(need.Value(serve.New(m, serve.Options{Name: "tiny", Key: "secret"}))(t))
	defer server.Close()
	python := filepath.Join(installed, "venv", "bin", "python")
	for name, command := range map[string][]string{
		"openai in Python":     {python, "clients/openai_client.py"},
		"langchain":            {python, "clients/langchain_client.py"},
		"openai in JavaScript": {"node", "clients/openai_client.mjs", installed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(err)
			}
			output, err := exec.Command(command[0], append(command[1:], server.URL+"/v1", "secret")...).CombinedOutput()
			assert.NoError(t, err)
			assert.Equal(t, "ok\n", string(output))
		})
	}
	require.Eventually(t, func() bool { l := m.Load(); return l.Running+l.Waiting == 0 }, time.Minute, time.Millisecond)
}
