/* body.h - the JSON of a request's body, to checked texts and options. Knows shapes, no tokenizer
 * and no engine. */
#ifndef BERTH_SERVER_BODY_H
#define BERTH_SERVER_BODY_H
#include "server/config.h"
#include "server/request.h"

struct text_body {
    struct input *inputs; // [n_inputs], in the request's arena, as are the texts
    int n_inputs;
    bool is_batch; // a list of inputs was sent, not one
    bool raw_scores;
    bool truncate;
    enum truncation_side side;
    bool add_special_tokens;
    int64_t n_chars; // Unicode code points
};
/* How an input is called in errors: "inputs", or "inputs[3]" where a list of them was sent. */
struct input_place {
    char text[32];
};
struct input_place input_place(bool is_batch, int index);
/* /predict: "text", ["text"], ["text", "pair"], or a list of such lists, and the options, of which
 * `partial` goes to the request: empty inputs then have their error in their place. False:
 * the reply says what is wrong and where. Fields that nobody knows are ignored, as TEI does. */
bool body_read_predict(struct text_body *out, struct request *r, const struct config *cfg);
/* /tokenize: "text", or a list of texts. */
bool body_read_tokenize(struct text_body *out, struct request *r, const struct config *cfg);
#endif
