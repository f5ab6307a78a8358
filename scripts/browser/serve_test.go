//go:build interop

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/serve"
)

// The page of a server of models asks for the key, streams answers as text, stops one, and requests nothing from other hosts.
func TestInteropServePage(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("there is no browser: apt-get install chromium")
	}
	weights := need.Value(instructtest.ChatModel("who are you " + hostile))(t)
	defer weights.Close()
	m := need.Value(llm.New(weights, llm.Options{Session: infer.SessionOptions{Context: 1 << 15, Threads: 1}}))(t)
	defer m.Close()
	handler := need.Value(serve.New(m, serve.Options{Name: "tiny", Key: "secret"}))(t)
	var endless atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if endless.Load() {
			w = &endlessWriter{ResponseWriter: w, ctx: r.Context()}
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	w := &watcher{hosts: map[string]bool{}}
	b := openBrowser(t, w)
	const status, answer = `document.getElementById("status").textContent`, `[...document.querySelectorAll(".turn.assistant")].at(-1)?.textContent.length > 0`
	b.run(chromedp.Navigate(server.URL + "/"))
	b.eventually(status, "the API key is wrong or missing; send it as Authorization: Bearer KEY")
	b.run(chromedp.Evaluate(`document.querySelector("details").open = true; at("key").value = "secret"; at("key").dispatchEvent(new Event("change"))`, nil))
	b.eventually(`document.getElementById("model").value`, "tiny")
	b.run(chromedp.SetValue("#tokens", "9"), chromedp.SendKeys("#text", hostile+"\r"))
	b.eventually(`/^\d+ tokens in [\d.]+ s$/.test(`+status+`)`, "true")
	require.Equal(t, hostile, b.eval(`document.querySelector(".turn.user").textContent`))
	endless.Store(true)
	b.run(chromedp.SetValue("#temperature", "5"), chromedp.SendKeys("#text", "who\r"))
	b.eventually(answer, "true")
	b.eventually(`document.getElementById("stop").disabled`, "false")
	b.run(chromedp.Click("#stop"))
	b.eventually(status, "stopped")
	b.run(chromedp.Click("#clear"))
	b.eventually(`document.getElementById("talk").children.length`, "0")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.dialogs)
	require.Empty(t, w.mistakes)
	require.Equal(t, map[string]bool{need.Value(url.Parse(server.URL))(t).Host: true}, w.hosts)
}

// An endlessWriter writes the first events of an answer, and no more until the client leaves.
type endlessWriter struct {
	http.ResponseWriter
	ctx    context.Context
	events int
}

func (w *endlessWriter) Write(p []byte) (int, error) {
	if w.events++; w.events > 4 {
		<-w.ctx.Done()
		return 0, w.ctx.Err()
	}
	return w.ResponseWriter.Write(p)
}

func (w *endlessWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
