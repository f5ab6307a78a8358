package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzScan compares the scanner with encoding/json: accepted input has the same values, and rejected
// input is invalid JSON, invalid UTF-8, an unpaired surrogate, a duplicate key, or too deep.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{greeting, `{"a": [1, -0.5e+3, true, null, {"b": "\u00e9\ud83d\ude00\n"}], "": {}}`, "{}", ` {"a":"é"} `, "[1]", `{"a":1,"a":2}`, `{"a":-}`, `{"a":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	for _, c := range brokenRecords {
		if len(c.line) < 1000 {
			f.Add([]byte(c.line))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, fault := scanObject(data)
		var want map[string]json.RawMessage
		err := json.Unmarshal(data, &want)
		if fault != nil {
			require.GreaterOrEqual(t, fault.at, 0)
			require.LessOrEqual(t, fault.at, len(data))
			switch fault.kind {
			case BadJSON, Truncated:
				require.True(t, err != nil || want == nil || strings.Contains(fault.reason, "deep"), "%s: %s", data, fault.reason)
			case BadEncoding:
				require.True(t, err != nil || !utf8.Valid(data) || bytes.Contains(data, []byte(`\u`)), "%s: %s", data, fault.reason)
			default:
				require.Equal(t, DuplicateKey, fault.kind)
			}
			return
		}
		require.NoError(t, err)
		require.True(t, utf8.Valid(data))
		for _, m := range members {
			require.Equal(t, string(want[m.key]), string(m.value))
			if m.value[0] == '"' {
				var text string
				require.NoError(t, json.Unmarshal(m.value, &text))
				require.Equal(t, text, stringOf(m.value))
			}
			delete(want, m.key)
		}
		for key, value := range want {
			require.Equal(t, "null", string(value), key)
		}
	})
}

// FuzzList compares the splitting of lists with encoding/json.
func FuzzList(f *testing.F) {
	for _, seed := range []string{"[]", `[{"a": "]}\\\""}, [1, [2]], "x,]", 5 , null]`, "[1,]", "[,1]", "[1 2]", "[1]]", `["a"b]`, "[{]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || data[0] != '[' {
			return
		}
		s := &listSplitter{r: bufio.NewReader(bytes.NewReader(data)), line: 1, max: 1 << 20}
		var got []string
		err := s.next()
		for ; err == nil; err = s.next() {
			got = append(got, strings.TrimSpace(string(s.item)))
		}
		var want []json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			return // items are scanned one by one
		}
		require.Equal(t, io.EOF, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, string(want[i]), got[i])
		}
	})
}
