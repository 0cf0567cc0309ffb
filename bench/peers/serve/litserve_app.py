"""A LitServe application with onnxruntime and LitServe's own dynamic batches.

  litserve_app.py PORT MODEL_FOLDER ORT_THREADS MAX_BATCH WORKERS
"""
import sys

import litserve

from ort_classifier import Classifier

BATCH_TIMEOUT_S = 0.005


class Api(litserve.LitAPI):
    def __init__(self, folder, threads, max_batch):
        super().__init__(max_batch_size=max_batch, batch_timeout=BATCH_TIMEOUT_S if max_batch > 1 else 0.0)
        self.folder, self.threads, self.batches = folder, threads, max_batch > 1

    def setup(self, device):
        self.classifier = Classifier(self.folder, self.threads)

    def decode_request(self, request, **kwargs):
        return request["inputs"]

    def predict(self, texts, **kwargs):
        return self.classifier.classify(texts) if self.batches else self.classifier.classify([texts])[0]

    def encode_response(self, output, **kwargs):
        return output


def main():
    port, folder, threads, max_batch, workers = sys.argv[1:]
    server = litserve.LitServer(Api(folder, int(threads), int(max_batch)), accelerator="cpu", devices=1,
                                workers_per_device=int(workers), timeout=600)
    server.run(host="127.0.0.1", port=int(port), generate_client_file=False, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
