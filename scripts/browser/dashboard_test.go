//go:build interop

// Package browser tests the pages of the programs in a real browser, headless Chromium (apt-get install
// chromium).
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// hostile is used as a name, a model, a prompt and an answer: it contains mark-up and a script.
const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>`

// makeRun writes the folder of a run.
func makeRun(t *testing.T, folder, model string, steps int) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("manifest.json", `{"program": "p", "ggml": "0.27", "steps": 40, "metrics": "metrics.jsonl", "adapter": "adapter.gguf"}`)
	write("config.yaml", fmt.Sprintf("model-base: %q\ntrain-data: [data.jsonl]\n", model))
	write("commands.txt", "2026-11-26T10:00:00Z  finetune "+hostile+"\n")
	write("metrics.jsonl", "")
	sample(t, folder, 0)
	train(t, folder, 1, steps)
	return folder
}

// add appends a line to a file of a run.
func add(t *testing.T, folder, name, line string) {
	t.Helper()
	f := need.Value(os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer f.Close()
	_, err := f.WriteString(line + "\n")
	require.NoError(t, err)
}

// sample appends a sample after a step.
func sample(t *testing.T, folder string, step int) {
	t.Helper()
	line := need.Value(json.Marshal(map[string]any{"step": step, "prompt": hostile, "text": fmt.Sprint(hostile, step)}))(t)
	add(t, folder, "samples.jsonl", string(line))
}

// train appends steps to the metrics of a run.
func train(t *testing.T, folder string, from, to int) {
	t.Helper()
	for step := from; step <= to; step++ {
		add(t, folder, "metrics.jsonl", fmt.Sprintf(`{"step":%d,"epoch":0.1,"loss":%f,"learning_rate":0.001,"grad_norm":1,"tokens_per_second":100,"peak_share":0.4,"memory":1000000}`, step, 3-float64(step)/40))
	}
}

// dashboard starts the program at an address, and returns its page.
func dashboard(t *testing.T, program, folder, listen string) (address string, stop func()) {
	t.Helper()
	c := exec.Command(program, "dashboard", folder, "--listen", listen)
	out := need.Value(c.StdoutPipe())(t)
	require.NoError(t, c.Start())
	line := need.Value(bufio.NewReader(out).ReadString('\n'))(t)
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			require.NoError(t, c.Process.Signal(syscall.SIGINT))
			c.Wait()
		}
	}
	t.Cleanup(stop)
	return strings.TrimSpace(strings.TrimPrefix(line, "dashboard: ")), stop
}

// A watcher records a page's network requests and errors.
type watcher struct {
	mu                sync.Mutex
	hosts             map[string]bool
	dialogs, mistakes []string
}

func (w *watcher) watch(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			w.hosts[u.Host] = true
		}
	case *page.EventJavascriptDialogOpening:
		w.dialogs = append(w.dialogs, e.Message)
	case *runtime.EventExceptionThrown:
		w.mistakes = append(w.mistakes, e.ExceptionDetails.Error())
	}
}

// buildProgram builds finetune, if there is a browser.
func buildProgram(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("there is no browser: apt-get install chromium")
	}
	program := filepath.Join(t.TempDir(), "finetune")
	need.Output(t, exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../examples/finetune"))
	return program
}

// A browser has one page.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// openBrowser opens a browser and watches its page.
func openBrowser(t *testing.T, w *watcher) browser {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1200, 1400))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // ignores unknown events of newer browsers
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, w.watch)
	return browser{t, ctx}
}

func (b browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b.ctx, actions...))
}

// eval returns the value of an expression as text.
func (b browser) eval(script string) (text string) {
	b.t.Helper()
	b.run(chromedp.Evaluate("String("+script+")", &text))
	return text
}

func (b browser) eventually(script, want string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.eval(script) == want }, time.Minute, 200*time.Millisecond, script)
}

// The page of a run updates while the run trains, and survives a reload, a restart of the program and the end
// of the run. It shows two runs side by side, fits a phone, follows the dark mode, and works by keyboard. It
// requests nothing from other hosts, and executes nothing in the files of a run.
func TestInteropDashboard(t *testing.T) {
	program := buildProgram(t)
	folder := t.TempDir()
	first := makeRun(t, filepath.Join(folder, "first"), hostile+".gguf", 10)
	makeRun(t, filepath.Join(folder, "second "+strings.ReplaceAll(hostile, "/", "")), "other.gguf", 5)
	address, stop := dashboard(t, program, folder, "127.0.0.1:0")
	at := need.Value(url.Parse(address))(t)

	w := &watcher{hosts: map[string]bool{}}
	b := openBrowser(t, w)
	run, eval, eventually := b.run, b.eval, b.eventually
	const (
		status = `document.getElementById("status").textContent`
		step   = `[...document.querySelectorAll("#runs tr")].find(r => r.textContent.startsWith("first"))?.cells[2].textContent`
		drawn  = `charts[0].plot?.data[0].length`
		lines  = `charts[0].plot?.series.length - 1`
	)
	run(chromedp.Navigate(address))
	eventually(status, "2 runs")
	if eval(`document.querySelector('input[value="first"]').checked`) != "true" {
		run(chromedp.Click(`input[value="first"]`))
	}
	eventually(lines, eval(`2 * document.querySelectorAll("#runs input:checked").length`))
	eventually(step, "10/40")
	eventually(`runs.get("first")?.lines.length`, "10")

	// It updates, also after a reload.
	train(t, first, 11, 25)
	eventually(step, "25/40")
	eventually(drawn, "25")
	run(chromedp.Reload())
	eventually(step, "25/40")
	require.Equal(t, "6", eval(`document.querySelectorAll("canvas").length`), "nothing was evaluated yet")

	// Samples appear with the evaluations. The last one is shown until another is chosen, also by keyboard.
	const after = `[...document.querySelectorAll("#samples details")].find(d => d.dataset.key === "samples of first")?.querySelector("output")?.textContent`
	add(t, first, "metrics.jsonl", `{"step":10,"epoch":0.1,"eval_loss":2,"tokens":9}`)
	for _, at := range []int{10, 20} {
		sample(t, first, at)
		eventually(after, fmt.Sprint("after step ", at))
	}
	require.Equal(t, "7", eval(`document.querySelectorAll("canvas").length`))
	require.Equal(t, "Held-out loss", eval(`document.querySelectorAll("figcaption")[1].textContent`))
	run(chromedp.Evaluate(`(() => { const d = [...document.querySelectorAll("#samples details")].find(d => d.dataset.key === "samples of first"); d.querySelector("input").focus() })()`, nil), chromedp.KeyEvent(kb.ArrowLeft))
	eventually(after, "after step 10")
	sample(t, first, 25)
	eventually(`[...document.querySelectorAll("#samples input")].map(i => i.max).sort().pop()`, "2")
	require.Equal(t, "after step 10", eval(after), "what was chosen stays")
	require.Equal(t, "range", eval(`document.activeElement.type`), "and the focus")
	run(chromedp.KeyEvent(kb.End))
	eventually(after, "after step 25")

	// A broken line and an incomplete folder affect nothing else.
	add(t, first, "metrics.jsonl", `{"step":26,"los`)
	half := filepath.Join(folder, "half")
	require.NoError(t, os.MkdirAll(half, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(half, "manifest.json"), []byte("{"), 0o600))
	eventually(status+`.includes("`+half+`")`, "true")
	require.NoError(t, os.RemoveAll(half))
	eventually(status+`.includes("`+half+`")`, "false")
	require.Regexp(t, `^2 runs; .*metrics\.jsonl`, eval(status), "what cannot be read is told as long as it is so")

	// The other run is added by keyboard.
	if eval(lines) == "2" {
		run(chromedp.Focus(`input:not(:checked)`), chromedp.KeyEvent(" "))
		eventually(lines, "4")
		require.Equal(t, "checkbox", eval(`document.activeElement.type`))
	}
	run(chromedp.Focus(`#about summary`), chromedp.KeyEvent(kb.Enter))
	eventually(`document.querySelectorAll("#about details[open]").length`, "1")
	require.Contains(t, eval(`document.body.innerText`), hostile)
	require.Equal(t, "0", eval(`document.querySelectorAll("img").length`))

	// The program restarts; the run is now complete.
	stop()
	eventually(`document.getElementById("status").className`, "lost")
	require.Equal(t, "25", eval(drawn), "the curves stay")
	train(t, first, 26, 40)
	dashboard(t, program, folder, at.Host)
	eventually(step, "40/40")
	eventually(drawn, "40")
	require.Equal(t, "", eval(`document.getElementById("status").className`))

	// A phone, and the dark mode.
	run(chromedp.EmulateViewport(380, 844))
	eventually(`document.documentElement.scrollWidth <= 380`, "true")
	require.Equal(t, "true", eval(`charts.some(c => c.plot)`))
	eventually(`charts.filter(c => c.plot).every(c => c.plot.root.getBoundingClientRect().right <= 380)`, "true")
	background := `getComputedStyle(document.body).backgroundColor`
	require.Equal(t, "rgb(255, 255, 255)", eval(background))
	run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	eventually(background, "rgb(20, 23, 26)")

	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.dialogs, "nothing of a run is executed")
	require.Empty(t, w.mistakes)
	require.Equal(t, map[string]bool{at.Host: true}, w.hosts)
}

// The curves have a gap for unreadable lines, and show a single point between two gaps. A proxy may serve the
// page under a prefix, with a trailing slash or without.
func TestInteropDashboardGap(t *testing.T) {
	program := buildProgram(t)
	folder := t.TempDir()
	broken := makeRun(t, filepath.Join(folder, "broken"), "m.gguf", 40)
	for _, part := range [][2]int{{61, 80}, {91, 91}, {101, 120}} { // steps, with broken lines in between
		add(t, broken, "metrics.jsonl", `{"step":1,"lo`+"\x00")
		train(t, broken, part[0], part[1])
	}
	address, _ := dashboard(t, program, folder, "127.0.0.1:0")
	at := need.Value(url.Parse(address))(t)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
	proxy := httptest.NewServer(http.StripPrefix("/a/prefix", forward))
	defer proxy.Close()

	w := &watcher{hosts: map[string]bool{}}
	b := openBrowser(t, w)
	const hasCurve = `(step) => {
		const p = charts[0].plot, at = Math.round(p.valToPos(step, "x", true));
		const column = p.ctx.getImageData(at, p.bbox.top, 1, p.bbox.height).data, blue = [0x1f, 0x6f, 0xd1];
		for (let i = 0; i < column.length; i += 4) if (column[i + 3] > 200 && blue.every((c, k) => Math.abs(column[i + k] - c) < 40)) return true;
		return false;
	}`
	for _, path := range []string{"/a/prefix", "/a/prefix/", "/a/prefix#run=broken"} {
		b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(proxy.URL+path))
		b.eventually(`document.getElementById("status")?.textContent.startsWith("1 run; ")`, "true")
		require.Equal(t, "/a/prefix/", b.eval(`location.pathname`))
		require.Contains(t, b.eval(`document.getElementById("status").textContent`), "metrics.jsonl")
		b.eventually(`charts[0].plot?.data[0].length`, "84")
		for step, want := range map[string]bool{"20": true, "50": false, "70": true, "85": false, "91": true, "96": false, "110": true} {
			b.eventually(`(`+hasCurve+`)(`+step+`)`, fmt.Sprint(want))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.mistakes)
	require.Equal(t, map[string]bool{strings.TrimPrefix(proxy.URL, "http://"): true}, w.hosts)
}
