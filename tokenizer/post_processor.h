/* post_processor.h - reads the templates that put special tokens around the texts. */
#ifndef BERTH_TOKENIZER_POST_PROCESSOR_H
#define BERTH_TOKENIZER_POST_PROCESSOR_H
#include "tokenizer/spec.h"
#include "tokenizer/fields.h"

/* A TemplateProcessing object. */
MUST_CHECK enum status template_read(struct tokenizer_spec *spec, const cJSON *post,
                                     const char *file, struct error *err);
/* A BertProcessing object. */
MUST_CHECK enum status template_read_bert(struct tokenizer_spec *spec, const cJSON *post,
                                          const char *file, struct error *err);
/* [CLS] A [SEP], and [CLS] A [SEP] B [SEP]. */
void template_bert(struct tokenizer_spec *spec, int32_t cls_id, int32_t sep_id);
void template_plain(struct tokenizer_spec *spec); // no special tokens
#endif
