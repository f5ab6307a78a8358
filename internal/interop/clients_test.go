//go:build interop

package interop

import (
	"net/http/httptest"
	"os"
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
	python, inPython := filepath.Join(installed, "venv", "bin", "python"), filepath.Join(installed, ".installed")
	for name, c := range map[string]struct {
		needs   string // a file
		command []string
	}{
		"openai in Python":     {inPython, []string{python, "clients/openai_client.py"}},
		"langchain":            {inPython, []string{python, "clients/langchain_client.py"}},
		"openai in JavaScript": {filepath.Join(installed, "node_modules", "openai"), []string{"node", "clients/openai_client.mjs", installed}},
	} {
		t.Run(name, func(t *testing.T) {
			command := c.command
			if _, err := os.Stat(c.needs); err != nil {
				t.Skip("the client is not installed; scripts/clients installs it, by pip or npm")
			}
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
