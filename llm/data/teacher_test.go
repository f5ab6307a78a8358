package data

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// The key teacher of a record, or the key that stands for it, names the teacher of its samples, also from the cache and
// of later parts. Without names the key has no meaning.
func TestTeachers(t *testing.T) {
	path := write(t, "a.jsonl", `{"text": "one two three four five six", "topic": "law"}
{"text": "one two three four five six", "topic": ""}
{"text": "one two three four five six"}`)
	o := LoadOptions{Length: 4, TooLong: SplitLong, Cache: t.TempDir(), Read: ReadOptions{Keys: map[string]string{"teacher": "topic"}, Teachers: []string{"law", "code"}}}
	for _, cached := range []bool{false, true} {
		l := need.Value(Load(t.Context(), chatTokenizer(t, false), []string{path}, o))(t)
		require.Equal(t, cached, l.Stats.FromCache)
		require.Empty(t, l.Warnings)
		names := map[int][]string{}
		for i := range l.Data.Len() {
			s := need.Value(l.Data.Row(i))(t)[0]
			names[s.Origin.Line] = append(names[s.Origin.Line], s.Teacher)
		}
		require.Greater(t, len(names[1]), 1)
		for i := range names[1] {
			require.Equal(t, "law", names[1][i])
			require.Equal(t, "", names[2][i])
			require.Equal(t, "", names[3][i])
		}
		require.NoError(t, l.Close())
	}
	o.Read.Teachers = nil
	l := need.Value(Load(t.Context(), chatTokenizer(t, false), []string{path}, o))(t)
	defer l.Close()
	require.False(t, l.Stats.FromCache)
	require.Empty(t, need.Value(l.Data.Row(0))(t)[0].Teacher)
	a, b := Sample{Tokens: []int32{1, 2}}, Sample{Tokens: []int32{1, 2}, Teacher: "law"}
	require.NotEqual(t, a.Hash(), b.Hash())
}

// Each broken name has its message.
func TestBrokenTeachers(t *testing.T) {
	for line, want := range map[string]string{
		`{"text": "one", "teacher": "history"}`: `"teacher" is "history"; the teachers are law, code; name a teacher of the run, or leave the key out for the first`,
		`{"text": "one", "teacher": 3}`:         `"teacher" is a number where a string is expected; write it in quotes`,
		`{"text": "one", "teacher": ["law"]}`:   `"teacher" is a list where a string is expected; write it in quotes`,
	} {
		path := write(t, "a.jsonl", line)
		_, err := readAll([]string{path}, ReadOptions{Teachers: []string{"law", "code"}})
		require.EqualError(t, err, path+":1: "+want)
		all, err := readAll([]string{path}, ReadOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"teacher"}, all[0].unused)
	}
}
