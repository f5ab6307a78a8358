// Package need takes the values that a test needs from calls that can fail.
package need

import "github.com/stretchr/testify/require"

// Value ends a test if the call failed, else it returns the call's value:
//
//	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
func Value[T any](x T, err error) func(require.TestingT) T {
	return func(t require.TestingT) T {
		if h, ok := t.(interface{ Helper() }); ok {
			h.Helper()
		}
		require.NoError(t, err)
		return x
	}
}
