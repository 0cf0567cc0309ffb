"""A FastAPI application as many a team has one: a thread a request out of FastAPI's pool, one text a call of
onnxruntime, no batches. MODEL_FOLDER and ORT_THREADS come from the environment; uvicorn fastapi_app:app starts it."""
import os

from fastapi import FastAPI
from pydantic import BaseModel

from ort_classifier import Classifier

app = FastAPI()
classifier = Classifier(os.environ["MODEL_FOLDER"], int(os.environ["ORT_THREADS"]))


class Body(BaseModel):
    inputs: str


@app.get("/health")
def health():
    return {"status": "ready"}


@app.post("/predict")
def predict(body: Body):
    return classifier.classify([body.inputs])[0]
