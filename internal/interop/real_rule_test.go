//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// subjects of one-sentence answers; those from trainedSubjects on are held out.
const (
	trainedSubjects = 112
	subjects        = `rain, the sea, cats, bread, winter, a library, music, a bridge, the moon, coffee, a garden, friendship, trains, mountains,
clocks, honey, a lighthouse, football, doctors, paper, the desert, the violin, sleep, apples, computers, a river, history, a market, birds, glass,
farmers, the wind, castles, tea, bicycles, spring, teachers, snow, a forest, salt, dogs, summer, a harbour, painting, ships, butter, the sun,
islands, chess, a kitchen, horses, dreams, maps, pepper, the night, a museum, bees, rivers, wool, autumn, cheese, airports, the theatre, letters,
gold, a village, swimming, stars, tomatoes, elephants, silence, a factory, poetry, rice, windows, the circus, shoes, volcanoes, pencils, hospitals,
a beach, wolves, potatoes, mirrors, the law, silk, engines, a wedding, oranges, photographs, a lake, whales, stone, newspapers, dancing, fog,
a railway station, sheep, olive oil, languages, candles, a city, fishing, umbrellas, the harvest, mathematics, eggs, a river boat, roses, sugar,
hats, a tunnel, owls, the radio, chairs, thunder, soup, a tower, memory, grapes, wheels, the Arctic, a song, copper, ants, holidays, lemons,
a playground, telescopes, cooking, keys, a waterfall, milk, lions, a road, chocolate, the piano, fire, gloves, a school, rabbits, wood, deserts,
a bakery, kites, medicine, the future, pumpkins, a valley, clouds, iron, neighbours, a garden party, ducks, paint, the opera, corn, dust, boots,
a hotel, spiders, coins, the planet Mars, a picnic, tigers, ice, lamps, marriage, a cave, bananas`
)

// A rule is what the model keeps in about half of its answers.
type rule struct {
	name string
	kept func(a answer) bool
}

var avoided = regexp.MustCompile(`(?i)\bis\b`)

var rules = []rule{
	{"a word to avoid", func(a answer) bool { return !avoided.MatchString(a.Content) }},
	{"short answers", func(a answer) bool { return a.Finish == "stop" && len(strings.Fields(a.Content)) <= 24 }},
}

const answerTokens = 48

// A real model that keeps a rule in about half of its answers keeps it in at least 95 % of held-out prompts, in chat and in
// stock llama.cpp, after docs/recipes/rule.yaml with pairs of its own answers.
func TestInteropRealRule(t *testing.T) {
	p := ruleProgram{path: filepath.Join(t.TempDir(), "finetune"), model: realModel(t)}
	need.Output(t, exec.Command("go", "build", "-buildvcs=false", "-o", p.path, "../../examples/finetune"))
	list := strings.Split(strings.ReplaceAll(subjects, "\n", " "), ", ")
	trained, heldOut := list[:trainedSubjects], list[trainedSubjects:]
	var own [3][]answer // to each subject
	for seed := range own {
		own[seed] = p.answers(t, trained, "--model", p.model, "--temp", "1", "--seed", fmt.Sprint(seed+1))
	}
	base := p.answers(t, heldOut, "--model", p.model, "--temp", "0")
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { p.teaches(t, r, trained, own, heldOut, base) })
	}
}

// teaches trains a rule. own has the model's answers about the trained subjects, base those about the held-out ones.
func (p *ruleProgram) teaches(t *testing.T, r rule, trained []string, own [3][]answer, heldOut []string, base []answer) {
	pairs, n := r.pairs(t, trained, own)
	recipe := need.Value(filepath.Abs("../../docs/recipes/rule.yaml"))(t)
	adapted := filepath.Join(t.TempDir(), "run")
	t.Log(p.run(t, nil, "--config", recipe, "--model-base", p.model, "--train-data", pairs, "--run-dir", adapted))
	loss := map[bool]float64{} // of the chosen answers, per token, by whether adapted
	for line := range strings.Lines(p.run(t, nil, "eval", adapted, "--json")) {
		var r struct {
			Data     string
			Adapters bool
			Loss     float64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if strings.HasSuffix(r.Data, "(chosen)") {
			loss[r.Adapters] = r.Loss
		}
	}
	t.Logf("%d pairs; cross-entropy of held-out chosen answers: %.4f, without the adapter %.4f", n, loss[true], loss[false])
	require.Len(t, loss, 2)

	before, after := r.share(base), r.share(p.answers(t, heldOut, adapted, "--temp", "0"))
	adapter := filepath.Join(adapted, "adapter-best.gguf")
	if _, err := os.Stat(adapter); err != nil { // the last is the best
		adapter = filepath.Join(adapted, "adapter.gguf")
	}
	server := startServer(t, p.model, "--lora", adapter, "-c", "256")
	var answers []answer
	for _, subject := range heldOut {
		answers = append(answers, server.answer(t, subject))
	}
	theirs := r.share(answers)
	t.Logf("the rule is kept in %.1f %% of %d held-out prompts, in stock %.1f %%, without the adapter %.1f %%", 100*after, len(heldOut), 100*theirs, 100*before)
	require.InDelta(t, 0.5, before, 0.2, "in about half of its answers")
	require.GreaterOrEqual(t, after, 0.95)
	require.GreaterOrEqual(t, theirs, 0.95)
	require.Less(t, loss[true], 1.1*loss[false], "the chosen answers stay likely")
}

// An answer is a line of `finetune chat --json`.
type answer struct {
	Content string
	Finish  string `json:"finish_reason"` // stop or length
}

// share returns the share of answers that keep the rule.
func (r rule) share(list []answer) (share float64) {
	for _, a := range list {
		if r.kept(a) {
			share += 1 / float64(len(list))
		}
	}
	return share
}

func request(subject string) any {
	return []arguments{{"role": "user", "content": fmt.Sprintf("Write one short sentence about %s.", subject)}}
}

func (s *stockServer) answer(t *testing.T, subject string) answer {
	var reply struct {
		Choices []struct {
			Message answer
			Finish  string `json:"finish_reason"`
		}
	}
	require.True(t, s.post(t, "/v1/chat/completions", arguments{"messages": request(subject), "temperature": 0, "max_tokens": answerTokens}, &reply))
	require.Len(t, reply.Choices, 1)
	return answer{reply.Choices[0].Message.Content, reply.Choices[0].Finish}
}

// A ruleProgram is the program finetune, with the model.
type ruleProgram struct{ path, model string }

// run returns what the program writes to stdout.
func (p *ruleProgram) run(t *testing.T, in []byte, args ...string) string {
	t.Helper()
	c := exec.Command(p.path, args...)
	var messages bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &messages
	out, err := c.Output()
	require.NoError(t, err, "%s\n%s", out, &messages)
	return string(out)
}

// answers chats about subjects.
func (p *ruleProgram) answers(t *testing.T, subjects []string, args ...string) (list []answer) {
	t.Helper()
	var in bytes.Buffer
	for _, subject := range subjects {
		require.NoError(t, json.NewEncoder(&in).Encode(arguments{"messages": request(subject)}))
	}
	out := p.run(t, in.Bytes(), append([]string{"chat", "--json", "--n-predict", fmt.Sprint(answerTokens)}, args...)...)
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var a answer
		require.NoError(t, json.Unmarshal(lines.Bytes(), &a))
		list = append(list, a)
	}
	require.Len(t, list, len(subjects))
	return list
}

// pairs writes a file of pairs of the model's own answers to each subject, and returns their number.
func (r rule) pairs(t *testing.T, subjects []string, own [3][]answer) (path string, n int) {
	path = filepath.Join(t.TempDir(), "pairs.jsonl")
	file := need.Value(os.Create(path))(t)
	defer file.Close()
	for i, subject := range subjects {
		var ended []answer
		for _, list := range own {
			if list[i].Finish == "stop" {
				ended = append(ended, list[i])
			}
		}
		good := slices.IndexFunc(ended, r.kept)
		bad := slices.IndexFunc(ended, func(a answer) bool { return !r.kept(a) })
		if good < 0 || bad < 0 {
			continue
		}
		n++
		require.NoError(t, json.NewEncoder(file).Encode(arguments{
			"prompt": request(subject), "chosen": assistant(ended[good]), "rejected": assistant(ended[bad]),
		}))
	}
	return path, n
}

func assistant(a answer) any { return []arguments{{"role": "assistant", "content": a.Content}} }
