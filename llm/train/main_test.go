package train_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/goggml/ggml/internal/testutil"
)

func TestMain(m *testing.M) {
	if run := os.Getenv(stepRunKey); run != "" {
		if err := benchStep(run); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testutil.Main(m)
}
