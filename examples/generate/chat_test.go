package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

const template = `{% if tools %}{{ raise_exception("no tools here") }}{% endif %}` +
	`{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`

// addTemplate writes a model with a chat template.
func addTemplate(path, base string) error {
	g, err := ggml.OpenGGUF(base)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Set("tokenizer.chat_template", template); err != nil {
		return err
	}
	return g.WriteFile(path)
}

// contents FROM TO is a command of scripts: it writes the contents of JSON replies as lines.
func contents(ts *testscript.TestScript, neg bool, args []string) {
	var text strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var reply struct{ Content *string }
		ts.Check(json.Unmarshal([]byte(line), &reply))
		if reply.Content == nil {
			ts.Fatalf("%s: no content", line)
		}
		text.WriteString(*reply.Content + "\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text.String()), 0o600))
}

// chatModel writes a model with a chat template whose replies never end.
func chatModel(t *testing.T) string {
	t.Helper()
	base, path := filepath.Join(t.TempDir(), "tiny.gguf"), filepath.Join(t.TempDir(), "chat.gguf")
	require.NoError(t, unzip(base, "tiny.gguf"))
	require.NoError(t, addTemplate(path, base))
	return path
}

// A dialogueProcess is a program in a dialogue.
type dialogueProcess struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log strings.Builder
}

func startDialogue(t *testing.T) *dialogueProcess {
	t.Helper()
	p := &dialogueProcess{Cmd: exec.Command("generate", "-m", chatModel(t), "--chat", "--temp", "0", "--ctx", "60000", "-t", "1")}
	p.in = need.Value(p.StdinPipe())(t)
	out := need.Value(p.StdoutPipe())(t)
	p.out = bufio.NewReader(out)
	p.Stderr = &p.log
	require.NoError(t, p.Start())
	return p
}

// begin sends a message, and waits for the start of the reply.
func (p *dialogueProcess) begin(t *testing.T, message string) {
	t.Helper()
	_, err := io.WriteString(p.in, message+"\n")
	require.NoError(t, err)
	_, err = p.out.ReadByte()
	require.NoError(t, err)
}

// restOfLine reads the rest of the reply.
func (p *dialogueProcess) restOfLine(t *testing.T) {
	t.Helper()
	_, err := p.out.ReadString('\n')
	require.NoError(t, err)
}

func (p *dialogueProcess) requireExit(t *testing.T, code int) {
	t.Helper()
	_, err := io.Copy(io.Discard, p.out)
	require.NoError(t, err)
	p.Wait()
	require.Equal(t, code, p.ProcessState.ExitCode(), p.log.String())
}

// An interrupt stops a reply; the dialogue continues with the partial reply.
func TestInterruptOfReply(t *testing.T) {
	p := startDialogue(t)
	for _, message := range []string{"hello", "again"} {
		p.begin(t, message)
		require.NoError(t, p.Process.Signal(os.Interrupt))
		p.restOfLine(t)
	}
	saved := filepath.Join(t.TempDir(), "saved.jsonl")
	_, err := io.WriteString(p.in, "/save "+saved+"\n")
	require.NoError(t, err)
	require.NoError(t, p.in.Close())
	p.requireExit(t, 0)
	text := need.Value(os.ReadFile(saved))(t)
	require.Regexp(t, `^{"messages":\[{"role":"user","content":"hello"},{"role":"assistant","content":".+"},{"role":"user","content":"again"},{"role":"assistant","content":".+"}\]}\n$`, string(text))
}

// Between replies an interrupt ends the dialogue; a termination signal ends it during a reply, too.
func TestSignalsEndDialogue(t *testing.T) {
	p := startDialogue(t)
	p.begin(t, "hello")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.restOfLine(t)
	_, err := io.WriteString(p.in, "/nothing\n")
	require.NoError(t, err)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.requireExit(t, 130)

	p = startDialogue(t)
	p.begin(t, "hello")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	p.requireExit(t, 130)
}

// If the reader of the output goes away, the program ends as by SIGPIPE.
func TestChatInBrokenPipe(t *testing.T) {
	c := exec.Command("generate", "-m", chatModel(t), "--chat", "-p", "hello", "--temp", "0", "--ctx", "60000", "-t", "1")
	out := need.Value(c.StdoutPipe())(t)
	require.NoError(t, c.Start())
	_, err := out.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	c.Wait()
	require.Equal(t, 128+int(syscall.SIGPIPE), c.ProcessState.ExitCode())
}
