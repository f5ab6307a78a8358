//go:build linux && cgo

package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/quantize"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/safetensors"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/serve"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

// prologue puts objects into the pool that random calls would rarely create.
func (c *caller) prologue(rng *rand.Rand) {
	first, made := uint64(1+c.goroutine)<<50, 0
	keep := func(v any, err error) {
		if err != nil {
			panic(err)
		}
		if v := reflect.ValueOf(v); v.IsValid() {
			c.pool.add(v, first+uint64(made), valueName(fmt.Sprintf("p%d", c.goroutine), made), c.goroutine)
			made++
		}
	}
	prologueOfModels(rng, keep)
	prologueOfBinding(keep)
}

func prologueOfBinding(keep func(v any, err error)) {
	c := ggml.NewContext()
	keep(c, nil)
	x, y := c.NewTensor(ggml.F32, 4, 4).SetName("x"), c.NewTensor(ggml.F32, 4, 4)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	keep(buffers, err)
	keep(x, nil)
	keep(y, nil)
	keep(c.NewGraph(c.Add(x, y)), nil)
	b, err := ggml.NewCPUBackend(1)
	keep(b, err)
	keep(b.Device(), nil)
	keep(ggml.OpenGGUF("model.gguf"))
}

func prologueOfModels(rng *rand.Rand, keep func(v any, err error)) {
	vocabulary, err := tokenizer.TrainBPE(func(yield func(string) bool) { yield("some text") }, tokenizer.TrainOptions{VocabSize: 257})
	keep(vocabulary, err)
	keep(tokenizer.TrainOptions{VocabSize: 257}, nil)
	t, err := tokenizer.New(vocabulary)
	keep(t, err)
	keep(t.NewDecoder(tokenizer.DecodeOptions{}), nil)
	g, err := grammar.Parse(`root ::= [a-z ]*`)
	keep(g, err)
	keep(g.NewMatcher(t))
	config := arch.Config{
		Arch: "llama", Vocab: t.NumTokens(), Context: 32, Embd: 32, FF: 32, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 16,
		RMSEps: 1e-5, Tied: rng.IntN(2) == 0,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	keep(config, nil)
	m, err := model.New(config, t, 1)
	keep(m, err)
	keep(nil, m.Save("model.gguf", model.SaveOptions{}))
	keep(m.Architecture(), nil)
	keep(&quantize.Mixtures()[0], nil)
	a, err := lora.New(m, lora.Options{Rank: 2, Alpha: 1})
	keep(a, err)
	keep(nil, a.Save("adapter.gguf", lora.SaveOptions{}))
	adapters := a.WithScale(1)
	keep(adapters, nil)
	keep(lora.Scaled{Adapter: a, Scale: 1}, nil)
	values := safetensors.Data{Name: "x", Type: safetensors.F32, Shape: []int64{1}, Values: []float32{1}}
	keep(values, safetensors.WriteFile("x.safetensors", []safetensors.Data{values}, nil))
	file, err := safetensors.Open("x.safetensors")
	keep(file, err)
	keep(file.Tensors()[0], nil)

	e, err := device.NewCPU(1)
	keep(e, err)
	keep(e.NewWorkspace())
	memory := layout.NewMemory(layout.Layout{})
	keep(memory, nil)
	packed := ggml.NewContext()
	keep(packed, nil)
	keep(memory.NewPacking(packed), nil)
	keep(&parallel.World{}, nil)
	needs := estimate.New()
	keep(needs, m.AddEstimate(needs, adapters))
	keep(layout.Planner{Layers: 2, Need: needs.In}.Plan())
	template, err := chat.Parse("template", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
	keep(template, err)
	prologueOfData(t, template, keep)
	prologueOfGeneration(m, template, infer.SessionOptions{Sequences: 2, Context: 16, Adapters: adapters, Engine: e}, keep)
	prologueOfTraining(m, adapters, e, keep)
}

func prologueOfData(t *tokenizer.Tokenizer, template *chat.Template, keep func(v any, err error)) {
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "a"), chat.NewMessage("assistant", "b")}}
	keep(talk, nil)
	keep(talk.Messages[0], nil)
	keep(template.Render(talk, nil))
	form := template.AnswerForm(nil)
	keep(form, nil)
	keep(form.NewReader("", nil), nil)
	keep(&data.Shuffler{N: 2}, nil)
	broken := &data.Broken{}
	keep(broken, nil)
	options := data.EncoderOptions{Template: template, SkipBroken: broken}
	keep(options, nil)
	keep(data.NewEncoder(t, options))
	keep(data.TextOptions{Length: 4}, nil)
	keep(data.PrepareOptions{Length: 4}, nil)
	keep(data.Example{Conversation: *talk}, nil)
	keep(&data.Hashes{}, nil)
	keep(&preference.Reference{}, nil)
	keep(preference.Options{Terms: []preference.Term{{Name: "dpo"}}}, nil)
	keep(nil, os.WriteFile("records.jsonl", []byte(`{"text": "some text", "topic": "any"}`+"\n"+`{"text": "more"}`), 0o600))
	load := data.LoadOptions{Length: 8, HoldOut: 0.5}
	keep(load, nil)
	loaded, err := data.Load(context.Background(), t, []string{"records.jsonl"}, load)
	keep(loaded, err)
	keep(loaded.Warnings[0], nil)
}

func prologueOfGeneration(m *model.Model, template *chat.Template, o infer.SessionOptions, keep func(v any, err error)) {
	keep(o, nil)
	s, err := infer.NewSession(m, o)
	keep(s, err)
	q, err := s.NewSequence()
	keep(q, err)
	keep(infer.StepInput{Sequence: q, Token: 1}, nil)
	pick, err := sample.New(sample.Options{})
	keep(pick, err)
	limit := 1
	keep(generate.Options{Limit: &limit}, nil)
	keep(generate.Token{ID: 1, Text: "a"}, nil)
	options := generate.ChatOptions{Template: template, Limit: &limit}
	keep(options, nil)
	keep(generate.NewChat(m, q, pick, options))
	keep(s.NewAdapters(o.Adapters))
	keep(s.NewEncoding([][]int32{{1, 2, 3}}, infer.EmbedOptions{Pooling: infer.PoolMean}))
	scheduled, err := infer.NewSession(m, infer.SessionOptions{Context: 16})
	keep(scheduled, err)
	keep(generate.NewScheduler(m, scheduled, generate.SchedulerOptions{}))
	open, err := llm.Open("model.gguf", llm.Options{Session: infer.SessionOptions{Context: 16}})
	keep(open, err)
	keep(serve.New(open, serve.Options{}))
}

func prologueOfTraining(m *model.Model, adapters model.Adapters, e *device.Engine, keep func(v any, err error)) {
	d := data.New(8, []data.Sample{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{4, 5, 6, 7}}})
	keep(d, nil)
	trained := train.Trainables{Adapters: adapters}
	keep(trained, nil)
	options := train.Options{Threads: 1, Engine: e, Batch: 1, Accumulate: 1, AdamW: train.DefaultAdamW(), Schedule: train.Schedule{Steps: 2, Peak: 1}}
	keep(options, nil)
	keep(train.New(m, trained, d, options))
	plan := train.Plan{Model: m, Trained: trained, Data: d, Options: options, Available: layout.Sizes{1 << 30}}
	keep(plan, nil)
	keep(plan.Fit(train.FitOptions{}))
	keep(train.NewEvaluator(m, train.EvaluatorOptions{Engine: e}))
	session, err := infer.NewSession(m, infer.SessionOptions{Context: 16})
	keep(session, err)
	keep(distill.NewAlignment(m.Tokenizer, m.Tokenizer))
	scorer, err := distill.NewScorer(session, distill.ScorerOptions{TopK: 2})
	keep(scorer, err)
	keep(distill.Open(context.Background(), func() (*distill.Scorer, error) { return scorer, nil }, distill.Options{ScorerOptions: distill.ScorerOptions{TopK: 2}}, d))
	keep(distill.NewOnPolicy(m, scorer, d, distill.OnPolicyOptions{Share: 1, MaxTokens: 2, Threads: 1}))
	folder, err := run.CreateNew("runs", "run") // one per goroutine
	keep(folder, err)
	keep(run.Progress{}, nil)
	keep(nil, folder.Describe(run.Manifest{}))
	keep(run.Open(folder.Path))
	keep(folder.Options(func(string) error { return nil }), nil)
	graph := lossgraph.Options{Adapters: adapters, Length: 4, Batch: 1}
	keep(graph, nil)
	keep(lossgraph.New(m, e, graph))
	keep(weightcache.New(m, e, ggml.F32, []weightcache.Tier{weightcache.None}))
	keep(lossgraph.Batch{Tokens: make([]int32, 4), Targets: make([]int32, 4)}, nil)
}
