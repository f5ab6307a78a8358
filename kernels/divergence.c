#include "cross_entropy.h"
#include "divergence.h"

#include <float.h>
#include <math.h>

// Added to the probability of the other labels: 1 − Σ of the labels' own is inexact by rounding, and a
// logarithm would amplify that where it is near 0.
static const double KERN_OTHERS = 1e-6;

// A row of logits beside the teacher's labels, each with its probability; the last probability is of all
// other labels together.
struct kern_taught_row {
	const float *logits;
	int64_t vocab, k;
	const int32_t *labels;
	const float *probs;
	double beta, max, log_sum;
};

// Returns the logarithm of the probability of label i; NaN if it is not in the vocabulary.
static double kern_log_prob(const struct kern_taught_row *r, int64_t i) {
	int32_t id = r->labels[i];
	return id >= 0 && id < r->vocab ? r->logits[id] - r->max - r->log_sum : NAN;
}

// Returns the loss of a probability q, whose logarithm is log_q, beside the teacher's p. *slope is q times
// the derivative along q, without a constant that is equal for all labels and does not change the gradient.
static double kern_divergence_term(double beta, double p, double q, double log_q, double *slope) {
	if (beta == 0) {
		*slope = -p;
		return p > 0 ? p * (log(p) - log_q) : 0;
	}
	if (beta == 1) {
		*slope = q > 0 ? q * (log_q - log(fmax(p, FLT_MIN))) : 0 * q;
		return *slope;
	}
	double log_m = log(beta * p + (1 - beta) * q);
	*slope = q > 0 ? (1 - beta) * q * (log_q - log_m) : 0 * q;
	return *slope + (p > 0 ? beta * p * (log(p) - log_m) : 0);
}

// Returns the probability of all other labels, where the labels' own add up to sum. If little is left, 1 − sum would be the
// rounding of sums in single precision, and the exponentials are added up again.
static double kern_rest(const struct kern_taught_row *r, double sum) {
	enum { KERN_FEW = 20 };
	if (!(1 - sum < 1.0 / KERN_FEW)) {
		return 1 - sum; // or NaN
	}
	double all = 0, own = 0;
	for (int64_t i = 0; i < r->vocab; i++) { all += exp(r->logits[i] - r->max); }
	for (int64_t i = 0; i < r->k; i++) { own += exp(r->logits[r->labels[i]] - r->max); }
	return fmax(all - own, 0) / all;
}

// Returns the loss of a row. With the derivative h along each probability q, the gradient of a logit is
// q · (h − Σ q · h): *others is the gradient of all other logits over q, and own has the labels'.
static double kern_divergence(const struct kern_taught_row *r, float *others, float *own) {
	double loss = 0, sum = 0, slopes = 0, slope;
	for (int64_t i = 0; i < r->k; i++) {
		double log_q = kern_log_prob(r, i), q = exp(log_q);
		loss += kern_divergence_term(r->beta, r->probs[i], q, log_q, &slope);
		slopes += slope;
		sum += q;
	}
	double rest = kern_rest(r, sum), q = rest + KERN_OTHERS;
	loss += kern_divergence_term(r->beta, r->probs[r->k] + KERN_OTHERS, q, log(q), &slope);
	slopes += rest * slope / q;
	*others = (float)(slope / q - slopes);
	for (int64_t i = 0; i < r->k; i++) {
		double log_q = kern_log_prob(r, i), q_i = exp(log_q);
		kern_divergence_term(r->beta, r->probs[i], q_i, log_q, &slope);
		own[i] = (float)(slope - slopes * q_i);
	}
	return loss;
}

KERN_OP(divergence) {
	(void)userdata;
	const struct ggml_tensor *logits = dst->src[0], *labels = dst->src[1], *probs = dst->src[2];
	int64_t rows = ggml_nrows(logits), k = ggml_nelements(labels) / rows;
	float *losses = dst->data, *all = losses + rows;
	for (int64_t i = rows * ith / nth; i < rows * (ith + 1) / nth; i++) {
		struct kern_taught_row r = {
			.logits = (const float *)logits->data + i * logits->ne[0], .vocab = logits->ne[0], .k = k,
			.labels = (const int32_t *)labels->data + i * k, .probs = (const float *)probs->data + i * (k + 1),
			.beta = ((const struct kern_divergence_params *)kern_params(dst))->beta,
		};
		struct kern_normaliser z = kern_normalise(r.logits, r.vocab);
		r.max = z.max;
		r.log_sum = log(z.sum);
		float *slopes = all + i * (k + 3);
		slopes[0] = z.max;
		slopes[1] = (float)z.sum;
		losses[i] = (float)kern_divergence(&r, &slopes[2], &slopes[3]);
	}
}

KERN_OP(divergence_grad) {
	(void)userdata;
	int64_t n = dst->ne[0], rows = ggml_nrows(dst), k = ggml_nelements(dst->src[1]) / rows;
	const float *weights = dst->src[2]->data;
	for (int64_t i = rows * ith / nth; i < rows * (ith + 1) / nth; i++) {
		float *x = (float *)dst->data + i * n;
		const int32_t *labels = (const int32_t *)dst->src[1]->data + i * k;
		const float *slopes = (const float *)dst->src[3]->data + i * (k + 3);
		kern_scaled_exp(x, n, slopes[0], weights[i] * slopes[2] / slopes[1]);
		for (int64_t j = 0; j < k; j++) {
			if (labels[j] >= 0 && labels[j] < n) {
				x[labels[j]] = weights[i] * slopes[3 + j];
			}
		}
	}
}
