"""SageMaker hosting: models, endpoint configurations, and endpoints that really answer.

moto keeps these three as records with fixed values and a canned answer; the classes here
take their place and start the local container (servable_local/container) for every variant.
"""
