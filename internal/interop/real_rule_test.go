//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// A real model that keeps a rule in about half of its answers keeps it in at least 95 % of held-out prompts, in chat and in
// stock llama.cpp, after docs/recipes/rule.yaml with pairs of its own answers.
func TestInteropRealRule(t *testing.T) {
	p := newRealProgram(t)
	list := strings.Split(strings.ReplaceAll(subjects, "\n", " "), ", ")
	for i, subject := range list {
		list[i] = fmt.Sprintf("Write one short sentence about %s.", subject)
	}
	trained, heldOut := list[:trainedSubjects], list[trainedSubjects:]
	own := make([][]answer, len(trained)) // four to each question
	for _, seed := range []string{"1", "2", "3", "4"} {
		for i, a := range p.answers(t, trained, "--model", p.model, "--temp", "1", "--seed", seed) {
			own[i] = append(own[i], a)
		}
	}
	base := p.answers(t, heldOut, "--model", p.model, "--temp", "0")
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { p.teaches(t, r, trained, own, heldOut, base) })
	}
}

// teaches trains a rule. own has the model's answers to the trained questions, base its answers to the held-out ones.
func (p *realProgram) teaches(t *testing.T, r rule, trained []string, own [][]answer, heldOut []string, base []answer) {
	tenth := len(trained) / 10 // whose pairs choose the best adapter
	pairs, n := r.pairs(t, trained[tenth:], own[tenth:])
	held, _ := r.pairs(t, trained[:tenth], own[:tenth])
	recipe := need.Value(filepath.Abs("../../docs/recipes/rule.yaml"))(t)
	adapted := filepath.Join(t.TempDir(), "run")
	t.Log(p.run(t, nil, "--config", recipe, "--model-base", p.model, "--train-data", pairs, "--valid-data", held, "--run-dir", adapted))
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
	for _, question := range heldOut {
		answers = append(answers, server.answer(t, question))
	}
	theirs := r.share(answers)
	t.Logf("the rule is kept in %.1f %% of %d held-out prompts, in stock %.1f %%, without the adapter %.1f %%", 100*after, len(heldOut), 100*theirs, 100*before)
	require.InDelta(t, 0.5, before, 0.2, "in about half of its answers")
	require.GreaterOrEqual(t, after, 0.95)
	require.GreaterOrEqual(t, theirs, 0.95)
	require.Less(t, loss[true], 1.1*loss[false], "the chosen answers stay likely")
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

// pairs writes a file of pairs of the model's own answers to the same question: each answer that keeps the rule with each one
// that breaks it. It returns the number of pairs.
func (r rule) pairs(t *testing.T, questions []string, own [][]answer) (path string, n int) {
	path = filepath.Join(t.TempDir(), "pairs.jsonl")
	file := need.Value(os.Create(path))(t)
	defer file.Close()
	for i, question := range questions {
		answers := map[bool][]answer{} // by whether the rule is kept
		for _, a := range own[i] {
			if a.Finish == "stop" {
				answers[r.kept(a)] = append(answers[r.kept(a)], a)
			}
		}
		for _, good := range answers[true] {
			for _, bad := range answers[false] {
				n++
				require.NoError(t, json.NewEncoder(file).Encode(arguments{
					"prompt": request(question), "chosen": assistant(good), "rejected": assistant(bad),
				}))
			}
		}
	}
	return path, n
}

func assistant(a answer) any { return []arguments{{"role": "assistant", "content": a.Content}} }
